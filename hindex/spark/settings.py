"""Settings of Spark and Hadoop that may change how files are read or expressions computed.

If a setting is set that is not known to be neutral, Spark itself reads: any version of Spark may add settings.
Settings that hindex supports, such as the time zone of the session, are checked where they matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hindex.spark.session import java_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "spark.sql."
_HADOOP_PREFIX = "spark.hadoop."

#: Settings that hindex follows, or checks for the queries and tables for which they matter.
FOLLOWED = frozenset(
    _PREFIX + name
    for name in (
        "ansi.doubleQuotedIdentifiers",
        "ansi.enabled",
        "ansi.relationPrecedence",
        "groupByOrdinal",
        "hive.convertMetastoreOrc",
        "legacy.charVarcharAsString",
        "legacy.noCharPaddingInPredicate",
        "orderByOrdinal",
        "parser.escapedStringLiterals",
        "parser.quotedRegexColumnNames",
        "preserveCharVarcharTypeInfo",
        "readSideCharPadding",
        "session.timeZone",
        "sources.partitionColumnTypeInference.enabled",
        "sources.useV1SourceList",
    )
)

#: Beginnings of what follows ``spark.sql.`` in the names of settings that change no rows that hindex reads: speed and
#: memory, other formats, writes, streams, messages, the connection to the catalog, and limits.
_NEUTRAL = tuple(
    """
    adaptive. addPartitionInBatch. allowNamedFunctionArguments alwaysInlineCommonExpr analyzer.canonicalization.
    analyzer.maxIterations analyzer.singlePassResolver.dualRun analyzer.singlePassResolver.expose
    analyzer.singlePassResolver.run analyzer.singlePassResolver.throw analyzer.singlePassResolver.validation
    artifact. autoBroadcastJoinThreshold avro. binByRelationOperator. broadcast bucketing. cache.
    cartesianProductExec. catalog. catalogImplementation cbo. classic. cli. codegen columnNameOfCorruptRecord
    columnVector. connect. constraintPropagation. crossJoin. csv. cteRecursion cteRelationDefMaxRows. dataFrame
    dataframeCache. datetime.java8API. debug defaultCacheStorageLevel defaultCatalog defaultSizeInBytes
    defaultUrlStreamHandlerFactory. dropTableOnView. error. event exchange. execution. expressionTreeChangeLog.
    extendedExplainProviders extensions fileSource.insert. files.max files.min files.openCostInBytes
    filesourceTableRelationCacheSize globalTempDatabase hive.advancedPartitionPredicatePushdown. hive.convertCTAS
    hive.convertInserting hive.convertMetastoreCtas hive.convertMetastoreInsertDir hive.convertMetastoreParquet
    hive.dropPartitionByName. hive.filesourcePartitionFileCacheSize hive.gatherFastStats
    hive.initializeMetastoreFormatClasses hive.metastore hive.showCreateTableAsSerde
    hive.tablePropertyLengthThreshold hive.thriftServer. hive.useDelegateForSymlinkTextInputFormat
    hive.verifyPartitionPath hive.version inMemory insertInto insertNestedTypeCoercion. join json. kafka.
    leafNodeDefaultParallelism legacy.addSingleFileInAddFile legacy.allowEmptySchemaWrite
    legacy.allowNonEmptyLocationInCTAS legacy.allowUntypedScalaUDF legacy.avro. legacy.createHiveTableByDefault
    legacy.csv. legacy.dataFrameWriterV2IgnorePathOption legacy.db2. legacy.emptyCurrentDBInCli legacy.execution.
    legacy.hive.thriftServer. legacy.jdbc. legacy.json. legacy.keepCommandOutputSchema legacy.mssqlserver.
    legacy.mysql. legacy.nullValueWrittenAsQuotedEmptyStringCsv legacy.observeMetrics legacy.oracle. legacy.parquet.
    legacy.postgres. legacy.raiseErrorWithoutErrorClass legacy.replaceDatabricksSparkAvro.
    legacy.setCommandRejectsSparkCoreConfs legacy.useLegacyXMLParser lightweightPlanChangeValidation limit. listagg.
    mapZipWithUsesJavaCollections maven. maxBroadcastTableSize maxConcurrentOutputFileWriters
    maxMetadataStringLength maxPlanStringLength maxSinglePartitionBytes mergeNestedTypeCoercion.
    metadataCacheTTLSeconds mv. nameResolutionLog. objectHashAggregate. operatorPipe optimizeNullAwareAntiJoin
    optimizer. orc.aggregatePushdown orc.columnar orc.compression. orc.enable orc.filterPushdown parquet.
    parser.manageParserCaches parser.parserDfa parser.singleCharacterPipe pipelines. pivotMaxValues planChange
    planner. protobuf. pyspark. python queryExecutionListeners redaction. reflect. repl. requireAllClusterKeys
    resultQueryStage. scriptTransformation. scripting. session.localRelation sessionWindow. shuffle sort.
    sortMergeJoinExec. sources.binaryFile. sources.bucketing. sources.commitProtocolClass sources.default
    sources.disabledJdbcConnProviderList sources.fileCompressionFactor sources.ignoreDataLocality
    sources.outputCommitterClass sources.parallelPartitionDiscovery. sources.partitionOverwriteMode
    sources.schemaStringLengthThreshold sources.structPredicateDecompose. sources.useListFilesFileSystemList
    sources.v2.bucketing. stackTracesInDataFrameContext statistics. storeAssignmentPolicy streaming.
    subexpressionElimination. subquery. thriftServer. thriftserver. transposeMaxValues truncateTable. tvf. udt. ui.
    unionOutputPartitioning variable. variant. warehouse. window xml.
    """.split()  # noqa: SIM905 a list of strings would take a line each
)
#: Exceptions to these: legacy results of subqueries, and where Spark lists other files.
_NOT_NEUTRAL = ("optimizer.decorrelate", "optimizer.metadataOnly", "streaming.fileStreamSink.")

#: Settings of Hadoop that change how Spark reads ORC files, and their defaults; None if there is none.
HADOOP_DEFAULTS: Mapping[str, str | None] = {
    "orc.encrypt": None,
    "orc.filter.plugin": "false",
    "orc.filter.use.selected": "false",
    "orc.force.positional.evolution": "false",
    "orc.force.positional.evolution.level": "1",
    "orc.include.columns": None,
    "hive.io.file.readcolumn.ids": None,
    "orc.key.provider": "hadoop",
    "orc.kryo.sarg": None,
    "orc.mapred.input.schema": None,
    "orc.mask": None,
    "orc.max.file.length": str(2**63 - 1),
    "orc.proleptic.gregorian": "false",
    "orc.proleptic.gregorian.default": "false",
    "orc.sarg.column.names": None,
    "orc.sarg.to.filter": "false",
    "orc.skip.corrupt.data": "false",
    "orc.tolerate.missing.schema": "true",
    "mapreduce.input.pathFilter.class": None,
}
#: Beginnings of the names of settings of Hadoop by which files are read. Others are variables of the
#: user, or concern writes and the access to stores.
_HADOOP = ("orc.", "hive.io.file.", "hive.mapred.", "mapred.input.", "mapreduce.input.", "fs.default")
#: Beginnings of those that change no rows, all for ORC: writes, buffers, and what Spark sets itself.
_NEUTRAL_HADOOP = tuple(
    """
    orc.base.delta.ratio orc.block. orc.bloom.filter. orc.buffer.size.enforce orc.column.encoding.direct orc.compress
    orc.create.index orc.default. orc.dictionary. orc.encoding.strategy orc.filter.plugin.allowlist orc.kryo.sarg.buffer
    orc.mapred.map.output. orc.mapred.output. orc.max.disk.range.chunk.limit orc.memory.pool orc.min.disk.seek.size
    orc.overwrite.output.file orc.row. orc.rows.between.memory.checks orc.schema.evolution.case.sensitive orc.stripe.
    orc.use.zerocopy orc.write. orc.zerocopy
    """.split()  # noqa: SIM905
)


def is_neutral(key: str) -> bool:
    """Return True if a setting, of Spark or of Hadoop in a session, changes no rows that hindex reads.

    Settings of Spark outside of its SQL are those of the cluster.
    """
    if key.startswith(_PREFIX):
        name = key.removeprefix(_PREFIX)
        return key in FOLLOWED or (name.startswith(_NEUTRAL) and not name.startswith(_NOT_NEUTRAL))
    name = _hadoop_name(key)
    return name not in HADOOP_DEFAULTS and (not name.startswith(_HADOOP) or name.startswith(_NEUTRAL_HADOOP))


def _hadoop_name(key: str) -> str:
    """Return the name of a setting of Hadoop in a session; ORC accepts Hive's names, too."""
    return key.removeprefix(_HADOOP_PREFIX).removeprefix("hive.exec.")


def setting_reason(spark: SparkSession) -> str | None:
    """Return a setting by which a session may read files or compute expressions otherwise than hindex, or None.

    This covers all settings of the session and of its Hadoop configuration, wherever they are set, except for those in
    `FOLLOWED`. It takes a few milliseconds.
    """
    session = java_session(spark)
    if session is None:
        return reason_in(spark.conf.getAll)
    keys = str(session.sessionState().conf().getAllConfs().keys().mkString("\n")).split("\n")
    unusual = {key: str(spark.conf.get(key)) for key in keys if key and not is_neutral(key)}
    changed = {key: value for key, value in unusual.items() if value.lower() != _default(spark, key)}
    return reason_in(changed) or reason_in(_hadoop_settings(session))


def reason_in(settings: Mapping[str, str]) -> str | None:
    """Return the reason among the settings of a session, as `setting_reason` does."""
    for key, value in sorted(settings.items()):
        if not is_neutral(key) and HADOOP_DEFAULTS.get(_hadoop_name(key), "") != value.lower():
            return f"the session has {key} = {value}"
    return None


def _default(spark: SparkSession, key: str) -> str | None:
    """Return the default of a setting of Spark's SQL in lower case; None for others."""
    from py4j.protocol import Py4JError

    try:
        # the object of Scala, whose class is not public in all versions
        settings: Any = getattr(getattr(spark._jvm, "org.apache.spark.sql.internal.SQLConf$"), "MODULE$")
        entry = settings.getConfigEntry(key)
        return None if entry is None else str(entry.defaultValueString()).lower()
    except Py4JError:
        return None


def _hadoop_settings(session: Any) -> dict[str, str]:  # noqa: ANN401 a Java object
    """Return the settings of Hadoop that change how ORC files are read, and are set in any of its sources."""
    names = "|".join(map(re.escape, HADOOP_DEFAULTS))
    settings = session.sessionState().newHadoopConf().getValByRegex(f"^(hive[.]exec[.])?({names})$")
    return {str(key): str(settings.get(key)) for key in settings.keySet().toArray()}
