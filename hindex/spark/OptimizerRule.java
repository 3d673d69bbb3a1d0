package hindex.spark;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.execution.LocalLimitExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.command.DataWritingCommand;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.orc.OrcScan;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import py4j.ClientServerConnection;
import py4j.PythonClient;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * A rule of Spark's optimizer that hands plans to Python. It passes on only plans that read ORC files, as one JSON text
 * each, because each call between Java and Python takes a tenth of a millisecond. Whatever fails leaves a plan as it is.
 */
public class OptimizerRule extends Rule {
  // the only rule that is on in a thread; of threads that Spark starts to serve the rows of an action, too
  private static final ThreadLocal only = new InheritableThreadLocal();
  private static final WeakReference NONE = new WeakReference(null);

  private SparkSession session;
  private Function rewrite;
  private Object python;
  private final ThreadLocal lastResult = new ThreadLocal();
  private volatile boolean isOn;
  private int users;

  /**
   * Set the session, whose plans do not use the rule before `turn` or `force`.
   *
   * @param rewrite from a view of a plan to another plan, or null
   * @param python the client with the connections to Python: a PythonClient if each thread has its own connection
   */
  public void use(SparkSession session, Function rewrite, Object python) {
    this.session = session;
    this.rewrite = rewrite;
    this.python = python;
    add();
    remove();
  }

  public PlanView view(LogicalPlan plan) {
    return new PlanView(plan, session, python);
  }

  /** Turn the rule on or off for all threads of its session. */
  public void turn(boolean isOn) {
    synchronized (OptimizerRule.class) {
      if (isOn && !this.isOn) {
        add();
      } else if (!isOn && this.isOn) {
        remove();
      }
      this.isOn = isOn;
    }
  }

  /** Let no rule but this one be on in this thread, or none at all; return what `restore` takes. */
  public Object force(boolean isOn) {
    Object before = only.get();
    if (isOn) {
      add();
    }
    only.set(isOn ? new WeakReference(this) : NONE);
    return before;
  }

  /** Undo a call of `force`. */
  public void restore(boolean wasOn, Object before) {
    only.set(before);
    if (wasOn) {
      remove();
    }
  }

  /** Add the rule to the session, behind the rules that it has. */
  private void add() {
    synchronized (OptimizerRule.class) {
      if (users++ == 0) {
        ArrayList rules = others();
        rules.add(this);
        session.experimental().extraOptimizations_$eq(seq(rules));
      }
    }
  }

  /** Remove the rule, and no other, from the session. */
  private void remove() {
    synchronized (OptimizerRule.class) {
      if (--users == 0) {
        session.experimental().extraOptimizations_$eq(seq(others()));
      }
    }
  }

  private ArrayList others() {
    ArrayList rules = new ArrayList();
    for (Iterator each = iterator(session.experimental().extraOptimizations()); each.hasNext(); ) {
      Object rule = each.next();
      if (rule != this) {
        rules.add(rule);
      }
    }
    return rules;
  }

  private boolean isActive() {
    WeakReference rule = (WeakReference) only.get();
    return rule == null ? isOn : rule.get() == this;
  }

  public TreeNode apply(TreeNode plan) {
    try {
      // Spark repeats its rules until none changes a plan
      if (!isActive() || isLastResult(plan) || !mayChange((LogicalPlan) plan)) {
        return plan;
      }
      TreeNode result = (TreeNode) rewrite.apply(view((LogicalPlan) plan));
      if (result == null) {
        return plan;
      }
      lastResult.set(new WeakReference(result));
      return result;
    } catch (VirtualMachineError error) {
      throw error;
    } catch (Throwable error) {
      // Python logs its own errors; the callback server may be gone, or Spark have other internals
      return plan;
    }
  }

  private boolean isLastResult(TreeNode plan) {
    WeakReference last = (WeakReference) lastResult.get();
    return last != null && last.get() == plan;
  }

  static boolean mayChange(LogicalPlan plan) {
    Seq children = plan.children();
    if (children.isEmpty()) {
      return relationOf(plan) != null || plan instanceof HiveTableRelation;
    }
    for (Iterator each = iterator(children); each.hasNext(); ) {
      if (mayChange((LogicalPlan) each.next())) {
        return true;
      }
    }
    return false;
  }

  /** The marker of relations that hindex reads by Spark's own reader. */
  public static final String MARKER = "hindex.planned";

  /** Return the file index of a relation of ORC files; null for other nodes. */
  static FileIndex relationOf(LogicalPlan node) {
    if (node instanceof LogicalRelation) {
      LogicalRelation relation = (LogicalRelation) node;
      if (relation.isStreaming() || !(relation.relation() instanceof HadoopFsRelation)) {
        return null;
      }
      HadoopFsRelation files = (HadoopFsRelation) relation.relation();
      if (!(files.fileFormat() instanceof OrcFileFormat) || files.options().contains(MARKER)) {
        return null;
      }
      return files.location();
    }
    if (node instanceof DataSourceV2ScanRelation) {
      DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
      if (relation.scan() instanceof OrcScan) {
        OrcScan scan = (OrcScan) relation.scan();
        return scan.pushedAggregate().isDefined() || scan.options().containsKey(MARKER) ? null : scan.fileIndex();
      }
    }
    return null;
  }

  static Iterator iterator(scala.collection.Iterable items) {
    return scala.jdk.javaapi.CollectionConverters.asJava(items.iterator());
  }

  static Seq seq(List items) {
    return (Seq) scala.jdk.javaapi.CollectionConverters.asScala(items).toSeq();
  }

  /** A plan as Python reads it: its nodes by number, and replacements of them. */
  public static class PlanView {
    private final LogicalPlan plan;
    private final SparkSession session;
    private final Object python;
    private final ArrayList nodes = new ArrayList();
    private final HashMap replaced = new HashMap();

    public PlanView(LogicalPlan plan, SparkSession session, Object python) {
      this.plan = plan;
      this.session = session;
      this.python = python;
    }

    public LogicalPlan plan() {
      return plan;
    }

    /** Return the current database, and the nodes, children before parents, as JSON. */
    public String json() {
      sendWithoutDelay();
      StringBuilder out = new StringBuilder("{\"database\":");
      Json.text(out, session.sessionState().catalog().getCurrentDatabase());
      out.append(",\"nodes\":[");
      add(plan, out);
      return out.append("]}").toString();
    }

    /** Send texts of more than 8 KiB, which leave in several packets, without waiting 40 ms for an acknowledgement. */
    private void sendWithoutDelay() {
      if (!(python instanceof PythonClient)) {
        return;
      }
      try {
        ClientServerConnection connection = ((PythonClient) python).getPerThreadConnection();
        if (connection != null && connection.getSocket() != null) {
          connection.getSocket().setTcpNoDelay(true);
        }
      } catch (java.net.SocketException error) {
        // plans are passed all the same
      }
    }

    private int add(LogicalPlan node, StringBuilder out) {
      ArrayList children = new ArrayList();
      for (Iterator each = iterator(node.children()); each.hasNext(); ) {
        children.add(Integer.valueOf(add((LogicalPlan) each.next(), out)));
      }
      int number = nodes.size();
      nodes.add(node);
      if (number > 0) {
        out.append(',');
      }
      out.append("{\"kind\":");
      Json.text(out, node.getClass().getSimpleName());
      out.append(",\"children\":").append(children);
      out.append(",\"output\":");
      Json.ids(out, node.output());
      if (node instanceof Filter) {
        out.append(",\"condition\":");
        Json.expression(out, ((Filter) node).condition());
        out.append(",\"deterministic\":").append(((Filter) node).condition().deterministic());
      } else if (node instanceof Project) {
        out.append(",\"items\":");
        Json.expressions(out, ((Project) node).projectList());
        boolean deterministic = true;
        for (Iterator each = iterator(((Project) node).projectList()); each.hasNext(); ) {
          deterministic &= ((Expression) each.next()).deterministic();
        }
        out.append(",\"deterministic\":").append(deterministic);
      } else if (node instanceof Aggregate) {
        out.append(",\"groups\":");
        Json.expressions(out, ((Aggregate) node).groupingExpressions());
        out.append(",\"items\":");
        Json.expressions(out, ((Aggregate) node).aggregateExpressions());
        out.append(",\"types\":[");
        String separator = "";
        for (Iterator each = iterator(node.output()); each.hasNext(); separator = ",") {
          out.append(separator);
          Json.text(out, ((Attribute) each.next()).dataType().json());
        }
        out.append(']');
      } else if (node instanceof Join) {
        Join join = (Join) node;
        out.append(",\"join\":");
        Json.text(out, join.joinType().toString());
        if (join.condition().isDefined()) {
          out.append(",\"condition\":");
          Json.expression(out, (Expression) join.condition().get());
        }
      } else if (node instanceof LeafNode) {
        leaf(node, out);
      } else if (node instanceof InsertIntoHadoopFsRelationCommand) {
        out.append(",\"writes\":");
        Json.text(out, uri(((InsertIntoHadoopFsRelationCommand) node).outputPath()));
      }
      if (node.isStreaming()) {
        out.append(",\"streaming\":true");
      }
      if (dependsOnSplits(node)) {
        out.append(",\"depends_on_splits\":true");
      }
      out.append('}');
      return number;
    }

    private void leaf(LogicalPlan node, StringBuilder out) {
      FileIndex index = relationOf(node);
      if (index == null && !(node instanceof HiveTableRelation)) {
        if (node instanceof LocalRelation) {
          out.append(",\"rows\":").append(((LocalRelation) node).data().size());
        }
        return;
      }
      CatalogTable table = null;
      if (node instanceof LogicalRelation) {
        LogicalRelation relation = (LogicalRelation) node;
        table = relation.catalogTable().isDefined() ? (CatalogTable) relation.catalogTable().get() : null;
      } else if (node instanceof HiveTableRelation) {
        table = ((HiveTableRelation) node).tableMeta();
      }
      out.append(",\"relation\":{\"table\":");
      if (table == null) {
        out.append("null");
      } else {
        Json.text(out, table.identifier().quotedString());
        scala.Option transactional = table.properties().get("transactional");
        out.append(",\"transactional\":");
        out.append(transactional.isDefined() && "true".equalsIgnoreCase((String) transactional.get()));
        out.append(",\"location\":");
        Json.text(out, table.storage().locationUri().isDefined()
            ? uri(new Path((java.net.URI) table.storage().locationUri().get())) : "");
      }
      out.append(",\"paths\":[");
      boolean first = true;
      if (index != null) {
        for (Iterator each = iterator(index.rootPaths()); each.hasNext(); ) {
          if (!first) {
            out.append(',');
          }
          first = false;
          Json.text(out, uri((Path) each.next()));
        }
      }
      out.append("],\"attributes\":[");
      HashSet partitions = new HashSet();
      if (index != null) {
        String[] names = index.partitionSchema().fieldNames();
        for (int at = 0; at < names.length; at++) {
          partitions.add(names[at]);
        }
      }
      boolean hasMetadata = false;
      first = true;
      for (Iterator each = iterator(node.output()); each.hasNext(); ) {
        Attribute attribute = (Attribute) each.next();
        hasMetadata |= attribute.metadata().contains("__metadata_col")
            || attribute.metadata().contains("__file_source_metadata_col");
        if (!first) {
          out.append(',');
        }
        first = false;
        out.append('[').append(attribute.exprId().id()).append(',');
        Json.text(out, attribute.name());
        out.append(',');
        Json.text(out, attribute.dataType().json());
        out.append(',').append(partitions.contains(attribute.name())).append(']');
      }
      out.append("],\"has_metadata\":").append(hasMetadata).append('}');
    }

    /** Return a setting of the session that plans; null if it has none. */
    public String setting(String key) {
      try {
        // without a default of our own, which would replace Spark's
        return SQLConf.get().getConfString(key);
      } catch (RuntimeException error) {
        return null;
      }
    }

    /** Return the files that a relation reads, a line each: path, length, modification time in milliseconds. */
    public String files(int number) {
      LogicalPlan node = (LogicalPlan) nodes.get(number);
      Seq partitionFilters = seq(new ArrayList());
      Seq dataFilters = partitionFilters;
      if (node instanceof DataSourceV2ScanRelation) {
        OrcScan scan = (OrcScan) ((DataSourceV2ScanRelation) node).scan();
        partitionFilters = scan.partitionFilters();
        dataFilters = scan.dataFilters();
      }
      StringBuilder out = new StringBuilder();
      Seq directories = relationOf(node).listFiles(partitionFilters, dataFilters);
      for (Iterator each = iterator(directories); each.hasNext(); ) {
        Seq files = ((PartitionDirectory) each.next()).files();
        for (Iterator file = iterator(files); file.hasNext(); ) {
          FileStatus status = ((FileStatusWithMetadata) file.next()).fileStatus();
          out.append(uri(status.getPath())).append('\0').append(status.getLen()).append('\0');
          out.append(status.getModificationTime()).append('\n');
        }
      }
      return out.toString();
    }

    /** Return the size of a node's rows by Spark's statistics, in bytes, and a hash of what it computes. */
    public String sizeAndHash(int number) {
      LogicalPlan node = (LogicalPlan) nodes.get(number);
      return node.stats().sizeInBytes() + " " + node.semanticHash();
    }

    /**
     * Put rows in the place of a node, under its attributes.
     *
     * @param rows a plan whose columns are those at the positions of the node's output
     * @param positions numbers with blanks between; other columns of the node are not used
     */
    public void standIn(int number, LogicalPlan rows, String positions) {
      LogicalPlan node = (LogicalPlan) nodes.get(number);
      ArrayList items = new ArrayList();
      String[] parts = positions.split(" ");
      for (int at = 0; at < parts.length; at++) {
        Attribute attribute = (Attribute) node.output().apply(Integer.parseInt(parts[at]));
        Expression value = (Expression) rows.output().apply(at);
        items.add(new Alias(value, attribute.name(), attribute.exprId(), attribute.qualifier(),
            scala.Option.apply(attribute.metadata()), (Seq) seq(new ArrayList())));
      }
      replaced.put(Integer.valueOf(number), new Project(seq(items), rows));
    }

    /** Put a plan with the same attributes in the place of a node. */
    public void replace(int number, LogicalPlan other) {
      replaced.put(Integer.valueOf(number), other);
    }

    /** Return the plan with the replacements. */
    public LogicalPlan result() {
      int[] next = new int[1];
      return rebuilt(plan, next);
    }

    private LogicalPlan rebuilt(LogicalPlan node, int[] next) {
      ArrayList children = new ArrayList();
      boolean isSame = true;
      for (Iterator each = iterator(node.children()); each.hasNext(); ) {
        LogicalPlan child = (LogicalPlan) each.next();
        LogicalPlan other = rebuilt(child, next);
        isSame &= other == child;
        children.add(other);
      }
      Object other = replaced.get(Integer.valueOf(next[0]++));
      if (other != null) {
        return (LogicalPlan) other;
      }
      if (isSame) {
        return node;
      }
      if (node instanceof Filter) {
        return filtered(((Filter) node).condition(), (LogicalPlan) children.get(0));
      }
      return (LogicalPlan) node.withNewChildren(seq(children));
    }

    /** Filter rows that stand for a scan: conditions that only prune the partitions of one need a scan. */
    private static LogicalPlan filtered(Expression condition, LogicalPlan child) {
      ArrayList stack = new ArrayList();
      stack.add(condition);
      Expression kept = null;
      while (!stack.isEmpty()) {
        Expression last = (Expression) stack.remove(stack.size() - 1);
        if (last instanceof And) {
          stack.add(((And) last).right());
          stack.add(((And) last).left());
        } else if (!(last instanceof DynamicPruning)) {
          kept = kept == null ? last : new And(kept, last);
        }
      }
      return kept == null ? child : new Filter(kept, child);
    }

    /**
     * Run a part of the plan, with the replacements so far, for at most a number of rows.
     *
     * @param atOnce run all tasks at once, each for so many rows; otherwise a few at a time, as long as rows are missing
     * @return its rows under its attributes; null if there are more
     */
    public LocalRelation collect(org.apache.spark.sql.classic.SparkSession session, int number, int maxRows,
        boolean atOnce) {
      LogicalPlan node = rebuiltNode(number);
      final int limit = maxRows + 1;
      LogicalPlan limited = atOnce ? node : (LogicalPlan) Limit.apply(
          Literal.create(Integer.valueOf(limit), org.apache.spark.sql.types.DataTypes.IntegerType), node);
      final boolean limitsTasks = atOnce;
      final QueryExecution execution =
          org.apache.spark.sql.classic.Dataset.ofRows(session, limited).queryExecution();
      final InternalRow[][] rows = new InternalRow[1][];
      SQLExecution.withNewExecutionId(execution, scala.Option.apply("hindex: keys of a lookup join"),
          new scala.runtime.AbstractFunction0() {
            public Object apply() {
              SparkPlan executed = execution.executedPlan();
              // above the generated code: within it, each limit has a variable of its own, so Spark would compile the
              // part's code again for every query
              rows[0] = (limitsTasks ? new LocalLimitExec(limit, executed) : executed).executeCollect();
              return null;
            }
          });
      if (rows[0].length > maxRows) {
        return null;
      }
      ArrayList copies = new ArrayList();
      for (int at = 0; at < rows[0].length; at++) {
        copies.add(rows[0][at].copy());
      }
      return new LocalRelation(node.output(), seq(copies), false, scala.Option.empty());
    }

    private LogicalPlan rebuiltNode(int number) {
      LogicalPlan node = (LogicalPlan) nodes.get(number);
      // numbers are those of a walk that ends with the node
      int[] next = new int[] {number + 1 - size(node)};
      return rebuilt(node, next);
    }

    private static int size(LogicalPlan node) {
      int size = 1;
      for (Iterator each = iterator(node.children()); each.hasNext(); ) {
        size += size((LogicalPlan) each.next());
      }
      return size;
    }

    /** Return the type of a column and its distinct values, a JSON list without nulls; null if they are no keys. */
    public String keys(LocalRelation rows, long id) {
      int position = 0;
      DataType type = null;
      for (Iterator each = iterator(rows.output()); each.hasNext(); position++) {
        Attribute attribute = (Attribute) each.next();
        if (attribute.exprId().id() == id) {
          type = attribute.dataType();
          break;
        }
      }
      if (type == null) {
        return null;
      }
      HashSet distinct = new HashSet();
      StringBuilder out = new StringBuilder("[");
      Json.text(out, type.catalogString());
      for (Iterator each = iterator(rows.data()); each.hasNext(); ) {
        InternalRow row = (InternalRow) each.next();
        Object value = row.isNullAt(position) ? null : row.get(position, type);
        if (value == null || !distinct.add(value)) {
          continue;
        }
        String text = Json.value(value, type);
        if (text == null) {
          return null;
        }
        out.append(',');
        Json.text(out, text);
      }
      return out.append(']').toString();
    }

    /** Return true if the values of a node depend on how Spark divides the files among tasks, or on their names. */
    static boolean dependsOnSplits(LogicalPlan node) {
      if (node instanceof Sample) {
        return true;
      }
      for (Iterator each = iterator(node.expressions()); each.hasNext(); ) {
        if (readsSplit((Expression) each.next())) {
          return true;
        }
      }
      return false;
    }

    static boolean readsSplit(Expression expression) {
      if (expression instanceof InputFileName || expression instanceof InputFileBlockStart
          || expression instanceof InputFileBlockLength) {
        return true;
      }
      // without a seed of the query, every run draws others anyway
      if ((expression instanceof Rand && !((Rand) expression).hideSeed())
          || (expression instanceof Randn && !((Randn) expression).hideSeed())) {
        return true;
      }
      for (Iterator each = iterator(expression.children()); each.hasNext(); ) {
        if (readsSplit((Expression) each.next())) {
          return true;
        }
      }
      return false;
    }

    /** A path without a scheme if it is local, percent signs as they are. */
    static String uri(Path path) {
      java.net.URI uri = path.toUri();
      String scheme = uri.getScheme();
      if (scheme == null || scheme.equals("file")) {
        return uri.getPath();
      }
      return scheme + "://" + (uri.getAuthority() == null ? "" : uri.getAuthority()) + uri.getPath();
    }
  }

  /** Expressions as JSON lists: a kind and its parts. Kinds that Python does not read have no parts. */
  static class Json {
    static void text(StringBuilder out, String text) {
      out.append('"');
      for (int at = 0; at < text.length(); at++) {
        char c = text.charAt(at);
        if (c == '"' || c == '\\') {
          out.append('\\').append(c);
        } else if (c < ' ' || c > '~') {
          String digits = Integer.toHexString(c);
          out.append("\\u").append("0000".substring(digits.length())).append(digits);
        } else {
          out.append(c);
        }
      }
      out.append('"');
    }

    static void ids(StringBuilder out, Seq attributes) {
      out.append('[');
      boolean first = true;
      for (Iterator each = iterator(attributes); each.hasNext(); ) {
        if (!first) {
          out.append(',');
        }
        first = false;
        out.append(((Attribute) each.next()).exprId().id());
      }
      out.append(']');
    }

    static void expressions(StringBuilder out, Seq items) {
      out.append('[');
      boolean first = true;
      for (Iterator each = iterator(items); each.hasNext(); ) {
        if (!first) {
          out.append(',');
        }
        first = false;
        expression(out, (Expression) each.next());
      }
      out.append(']');
    }

    static void parts(StringBuilder out, Seq children) {
      for (Iterator each = iterator(children); each.hasNext(); ) {
        out.append(',');
        expression(out, (Expression) each.next());
      }
    }

    /** Return true if a value is by the clock of another time zone: the session had that when the query was analyzed. */
    static boolean hasOtherZone(Expression expression) {
      if (!(expression instanceof TimeZoneAwareExpression)
          || (expression instanceof Cast && !((Cast) expression).needsTimeZone())) {
        return false;
      }
      Option zone = ((TimeZoneAwareExpression) expression).timeZoneId();
      return !zone.isDefined() || !zone.get().equals(SQLConf.get().sessionLocalTimeZone());
    }

    static void expression(StringBuilder out, Expression expression) {
      if (hasOtherZone(expression)) {
        out.append("[\"OfOtherZone\"");
        parts(out, expression.children());
        out.append(']');
      } else if (expression instanceof AttributeReference) {
        AttributeReference attribute = (AttributeReference) expression;
        out.append("[\"Attribute\",").append(attribute.exprId().id()).append(',');
        text(out, attribute.name());
        out.append(']');
      } else if (expression instanceof Literal) {
        literal(out, (Literal) expression);
      } else if (expression instanceof Alias) {
        Alias alias = (Alias) expression;
        out.append("[\"Alias\",").append(alias.exprId().id()).append(',');
        expression(out, alias.child());
        out.append(']');
      } else if (expression instanceof And || expression instanceof Or) {
        out.append(expression instanceof And ? "[\"And\"" : "[\"Or\"");
        operands(out, expression, expression.getClass());
        out.append(']');
      } else if (expression instanceof GetStructField) {
        GetStructField field = (GetStructField) expression;
        out.append("[\"Field\",");
        expression(out, field.child());
        out.append(',');
        text(out, ((StructType) field.child().dataType()).fields()[field.ordinal()].name());
        out.append(']');
      } else if (expression instanceof GetArrayStructFields) {
        GetArrayStructFields fields = (GetArrayStructFields) expression;
        StructType element = (StructType) ((ArrayType) fields.child().dataType()).elementType();
        out.append("[\"ElementField\",");
        expression(out, fields.child());
        out.append(',');
        text(out, element.fields()[fields.ordinal()].name());
        out.append(']');
      } else if (expression instanceof InSet) {
        InSet in = (InSet) expression;
        DataType type = in.child().dataType();
        out.append("[\"In\",");
        expression(out, in.child());
        for (Iterator each = iterator(in.hset()); each.hasNext(); ) {
          out.append(',');
          literal(out, new Literal(each.next(), type));
        }
        out.append(']');
      } else if (expression instanceof AggregateExpression) {
        AggregateExpression aggregate = (AggregateExpression) expression;
        out.append("[\"Aggregate\",");
        text(out, aggregate.aggregateFunction().getClass().getSimpleName());
        out.append(',').append(aggregate.isDistinct()).append(',').append(aggregate.filter().isDefined());
        parts(out, aggregate.aggregateFunction().children());
        if (aggregate.filter().isDefined()) {
          out.append(',');
          expression(out, (Expression) aggregate.filter().get());
        }
        out.append(']');
      } else if (expression instanceof StaticInvoke
          && ((StaticInvoke) expression).functionName().equals("readSidePadding")) {
        out.append("[\"Padded\"");
        parts(out, expression.children());
        out.append(']');
      } else if (expression instanceof Cast) {
        Cast cast = (Cast) expression;
        out.append(cast.evalMode().toString().equals("TRY") ? "[\"TryCast\"," : "[\"Cast\",");
        expression(out, cast.child());
        out.append(',');
        text(out, cast.child().dataType().catalogString());
        out.append(',');
        text(out, cast.dataType().catalogString());
        out.append(']');
      } else if (expression instanceof Like) {
        Like like = (Like) expression;
        out.append("[\"Like\"");
        parts(out, expression.children());
        out.append(',');
        text(out, String.valueOf(like.escapeChar()));
        out.append(']');
      } else {
        out.append('[');
        text(out, expression.getClass().getSimpleName());
        parts(out, expression.children());
        out.append(']');
      }
    }

    static void operands(StringBuilder out, Expression expression, Class kind) {
      // chains of thousands are nested to the left
      ArrayList operands = new ArrayList();
      ArrayList stack = new ArrayList();
      stack.add(expression);
      while (!stack.isEmpty()) {
        Expression last = (Expression) stack.remove(stack.size() - 1);
        if (last.getClass() == kind) {
          stack.add(last.children().apply(1));
          stack.add(last.children().apply(0));
        } else {
          operands.add(last);
        }
      }
      for (Iterator each = operands.iterator(); each.hasNext(); ) {
        out.append(',');
        expression(out, (Expression) each.next());
      }
    }

    static void literal(StringBuilder out, Literal literal) {
      DataType type = literal.dataType();
      if (literal.value() == null) {
        out.append("[\"Literal\",\"").append(type.typeName().startsWith("void") ? "void" : "null").append("\",null]");
        return;
      }
      if (type instanceof StructType && literal.value() instanceof InternalRow) {
        InternalRow row = (InternalRow) literal.value();
        StructField[] fields = ((StructType) type).fields();
        out.append("[\"Row\"");
        for (int at = 0; at < fields.length; at++) {
          out.append(',');
          literal(out, new Literal(row.get(at, fields[at].dataType()), fields[at].dataType()));
        }
        out.append(']');
        return;
      }
      if (literal.value() instanceof ArrayData) {
        ArrayData array = (ArrayData) literal.value();
        DataType element = ((ArrayType) type).elementType();
        out.append("[\"Array\"");
        for (int at = 0; at < array.numElements(); at++) {
          out.append(',');
          literal(out, new Literal(array.isNullAt(at) ? null : array.get(at, element), element));
        }
        out.append(']');
        return;
      }
      String value = value(literal.value(), type);
      if (value == null) {
        out.append("[\"Value\"]");
        return;
      }
      out.append("[\"Literal\",");
      text(out, type.catalogString());
      out.append(',');
      text(out, value);
      out.append(']');
    }

    /** A value of a simple type as text; null for others. */
    static String value(Object value, DataType type) {
      if (value instanceof UTF8String) {
        UTF8String string = (UTF8String) value;
        return type.catalogString().equals("string") && string.isValid() ? string.toString() : null;
      }
      if (value instanceof Decimal) {
        return ((Decimal) value).toJavaBigDecimal().toPlainString();
      }
      if (value instanceof byte[]) {
        StringBuilder hex = new StringBuilder();
        byte[] bytes = (byte[]) value;
        for (int at = 0; at < bytes.length; at++) {
          hex.append(Character.forDigit((bytes[at] >> 4) & 15, 16)).append(Character.forDigit(bytes[at] & 15, 16));
        }
        return hex.toString();
      }
      if (value instanceof Float) {
        return Double.toString(((Float) value).doubleValue());
      }
      if (value instanceof Number || value instanceof Boolean) {
        return value.toString();
      }
      return null;
    }
  }
}
