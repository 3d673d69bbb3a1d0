"""The queries of TPC-H as DataFrames: with the columns, the parameters and the order of ``tpch.sql``."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf
from pyspark.sql.functions import col

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def _revenue() -> Column:
    return col("l_extendedprice") * (1 - col("l_discount"))


def _nations(spark: SparkSession, prefix: str) -> DataFrame:
    """The nations under other names, for queries that join them twice."""
    return spark.table("nation").select(
        col("n_nationkey").alias(f"{prefix}_nationkey"),
        col("n_name").alias(f"{prefix}_nation"),
        col("n_regionkey").alias(f"{prefix}_regionkey"),
    )


def query_1(spark: SparkSession) -> DataFrame:
    return (
        spark.table("lineitem")
        .filter(col("l_shipdate") <= sf.date_sub(sf.lit("1998-12-01").cast("date"), 90))
        .groupBy("l_returnflag", "l_linestatus")
        .agg(
            sf.sum("l_quantity").alias("sum_qty"),
            sf.sum("l_extendedprice").alias("sum_base_price"),
            sf.sum(_revenue()).alias("sum_disc_price"),
            sf.sum(_revenue() * (1 + col("l_tax"))).alias("sum_charge"),
            sf.avg("l_quantity").alias("avg_qty"),
            sf.avg("l_extendedprice").alias("avg_price"),
            sf.avg("l_discount").alias("avg_disc"),
            sf.count("*").alias("count_order"),
        )
        .orderBy("l_returnflag", "l_linestatus")
    )


def query_2(spark: SparkSession) -> DataFrame:
    suppliers = (
        spark.table("region")
        .filter(col("r_name") == "EUROPE")
        .join(spark.table("nation"), col("r_regionkey") == col("n_regionkey"))
        .join(spark.table("supplier"), col("n_nationkey") == col("s_nationkey"))
    )
    offers = spark.table("partsupp").join(suppliers, col("ps_suppkey") == col("s_suppkey"))
    cheapest = offers.groupBy(col("ps_partkey").alias("partkey")).agg(
        sf.min("ps_supplycost").alias("min_cost")
    )
    return (
        spark.table("part")
        .where((col("p_size") == 15) & col("p_type").like("%BRASS"))
        .join(offers, col("p_partkey") == col("ps_partkey"))
        .join(cheapest, (col("p_partkey") == col("partkey")) & (col("ps_supplycost") == col("min_cost")))
        .select("s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment")
        .sort(col("s_acctbal").desc(), "n_name", "s_name", "p_partkey")
        .limit(100)
    )


def query_3(spark: SparkSession) -> DataFrame:
    day = date(1995, 3, 15)
    customers = spark.table("customer").filter(col("c_mktsegment") == "BUILDING")
    orders = spark.table("orders").filter(col("o_orderdate") < day)
    lines = spark.table("lineitem").filter(col("l_shipdate") > day)
    return (
        customers.join(orders, customers.c_custkey == orders.o_custkey)
        .join(lines, orders.o_orderkey == lines.l_orderkey)
        .groupBy("l_orderkey", "o_orderdate", "o_shippriority")
        .agg(sf.sum(_revenue()).alias("revenue"))
        .select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")
        .orderBy(sf.desc("revenue"), "o_orderdate", "l_orderkey")
        .limit(10)
    )


def query_4(spark: SparkSession) -> DataFrame:
    late = spark.table("lineitem").filter("l_commitdate < l_receiptdate")
    return (
        spark.table("orders")
        .filter("o_orderdate >= '1993-07-01' AND o_orderdate < '1993-10-01'")
        .join(late, col("o_orderkey") == col("l_orderkey"), "left_semi")
        .groupBy("o_orderpriority")
        .agg(sf.count("*").alias("order_count"))
        .orderBy("o_orderpriority")
    )


def query_5(spark: SparkSession) -> DataFrame:
    orders = spark.table("orders").filter(
        (col("o_orderdate") >= sf.lit(date(1994, 1, 1)))
        & (col("o_orderdate") < sf.add_months(sf.lit(date(1994, 1, 1)), 12))
    )
    return (
        spark.table("customer")
        .join(orders, col("c_custkey") == col("o_custkey"))
        .join(spark.table("lineitem"), col("o_orderkey") == col("l_orderkey"))
        .join(
            spark.table("supplier"),
            [col("l_suppkey") == col("s_suppkey"), col("c_nationkey") == col("s_nationkey")],
        )
        .join(sf.broadcast(spark.table("nation")), col("s_nationkey") == col("n_nationkey"))
        .join(sf.broadcast(spark.table("region")), col("n_regionkey") == col("r_regionkey"))
        .filter(col("r_name") == "ASIA")
        .groupBy("n_name")
        .agg(sf.sum(_revenue()).alias("revenue"))
        .orderBy(sf.desc("revenue"))
    )


def query_6(spark: SparkSession) -> DataFrame:
    shipped, discount = col("l_shipdate"), col("l_discount")
    return (
        spark.table("lineitem")
        .where((shipped >= "1994-01-01") & (shipped < "1995-01-01"))
        .where(discount.between(Decimal("0.05"), Decimal("0.07")) & (col("l_quantity") < 24))
        .agg(sf.sum(col("l_extendedprice") * discount).alias("revenue"))
    )


def query_7(spark: SparkSession) -> DataFrame:
    pairs = ((col("supp_nation") == "FRANCE") & (col("cust_nation") == "GERMANY")) | (
        (col("supp_nation") == "GERMANY") & (col("cust_nation") == "FRANCE")
    )
    return (
        spark.table("supplier")
        .join(spark.table("lineitem"), col("s_suppkey") == col("l_suppkey"))
        .join(spark.table("orders"), col("l_orderkey") == col("o_orderkey"))
        .join(spark.table("customer"), col("o_custkey") == col("c_custkey"))
        .join(_nations(spark, "supp"), col("s_nationkey") == col("supp_nationkey"))
        .join(_nations(spark, "cust"), col("c_nationkey") == col("cust_nationkey"))
        .filter(pairs & col("l_shipdate").between("1995-01-01", "1996-12-31"))
        .withColumn("l_year", sf.year("l_shipdate"))
        .withColumn("volume", _revenue())
        .groupBy("supp_nation", "cust_nation", "l_year")
        .agg(sf.sum("volume").alias("revenue"))
        .orderBy("supp_nation", "cust_nation", "l_year")
    )


def query_8(spark: SparkSession) -> DataFrame:
    orders = spark.table("orders").filter(col("o_orderdate").between(date(1995, 1, 1), date(1996, 12, 31)))
    americas = (
        spark.table("region")
        .filter(col("r_name") == "AMERICA")
        .join(_nations(spark, "cust"), col("r_regionkey") == col("cust_regionkey"))
        .join(spark.table("customer"), col("cust_nationkey") == col("c_nationkey"))
    )
    return (
        spark.table("part")
        .filter(col("p_type") == "ECONOMY ANODIZED STEEL")
        .join(spark.table("lineitem"), col("p_partkey") == col("l_partkey"))
        .join(orders, col("l_orderkey") == col("o_orderkey"))
        .join(americas, col("o_custkey") == col("c_custkey"))
        .join(spark.table("supplier"), col("l_suppkey") == col("s_suppkey"))
        .join(_nations(spark, "supp"), col("s_nationkey") == col("supp_nationkey"))
        .select(sf.year("o_orderdate").alias("o_year"), _revenue().alias("volume"), "supp_nation")
        .withColumn("brazilian", sf.when(col("supp_nation") == "BRAZIL", col("volume")).otherwise(0))
        .groupBy("o_year")
        .agg((sf.sum("brazilian") / sf.sum("volume")).alias("mkt_share"))
        .orderBy("o_year")
    )


def query_9(spark: SparkSession) -> DataFrame:
    lines, offers = spark.table("lineitem"), spark.table("partsupp")
    is_offered = (lines.l_suppkey == offers.ps_suppkey) & (lines.l_partkey == offers.ps_partkey)
    return (
        spark.table("part")
        .filter(col("p_name").contains("green"))
        .join(lines, col("p_partkey") == col("l_partkey"))
        .join(offers, is_offered)
        .join(spark.table("supplier"), col("l_suppkey") == col("s_suppkey"))
        .join(spark.table("orders"), col("l_orderkey") == col("o_orderkey"))
        .join(spark.table("nation"), col("s_nationkey") == col("n_nationkey"))
        .select(
            col("n_name").alias("nation"),
            sf.year("o_orderdate").alias("o_year"),
            (_revenue() - col("ps_supplycost") * col("l_quantity")).alias("amount"),
        )
        .groupBy("nation", "o_year")
        .agg(sf.sum("amount").alias("sum_profit"))
        .orderBy("nation", col("o_year").desc())
    )


def query_10(spark: SparkSession) -> DataFrame:
    quarter = (col("o_orderdate") >= "1993-10-01") & (col("o_orderdate") < "1994-01-01")
    # joins by name leave one column of each pair
    customers = spark.table("customer").withColumnRenamed("c_nationkey", "nationkey")
    nations = spark.table("nation").withColumnRenamed("n_nationkey", "nationkey")
    orders = spark.table("orders").filter(quarter).withColumnsRenamed({"o_custkey": "c_custkey"})
    returned = (
        spark.table("lineitem").filter(col("l_returnflag") == "R").withColumn("o_orderkey", col("l_orderkey"))
    )
    return (
        customers.join(orders, "c_custkey")
        .join(returned, on=["o_orderkey"], how="inner")
        .join(nations, "nationkey")
        .groupBy("c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment")
        .agg(sf.sum(_revenue()).alias("revenue"))
        .select("c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment")
        .orderBy(["revenue", "c_custkey"], ascending=[False, True])
        .limit(20)
    )


def query_11(spark: SparkSession) -> DataFrame:
    german = (
        spark.table("partsupp")
        .join(spark.table("supplier"), col("ps_suppkey") == col("s_suppkey"))
        .join(
            spark.table("nation").filter(col("n_name") == "GERMANY"), col("s_nationkey") == col("n_nationkey")
        )
        .withColumn("stock", col("ps_supplycost") * col("ps_availqty"))
    )
    limit = german.agg((sf.sum("stock") * Decimal("0.0001")).alias("limit"))
    return (
        german.groupBy("ps_partkey")
        .agg(sf.sum("stock").alias("value"))
        .crossJoin(limit)
        .filter(col("value") > col("limit"))
        .drop("limit")
        .orderBy(sf.desc("value"), "ps_partkey")
    )


def query_12(spark: SparkSession) -> DataFrame:
    is_high = col("o_orderpriority").isin("1-URGENT", "2-HIGH")
    received = col("l_receiptdate")
    return (
        spark.table("lineitem")
        .filter(col("l_shipmode").isin(["MAIL", "SHIP"]))
        .filter((col("l_commitdate") < received) & (col("l_shipdate") < col("l_commitdate")))
        .filter(
            (received >= sf.to_date(sf.lit("1994-01-01"))) & (received < sf.to_date(sf.lit("1995-01-01")))
        )
        .join(spark.table("orders"), col("l_orderkey") == col("o_orderkey"))
        .groupBy("l_shipmode")
        .agg(
            sf.sum(sf.when(is_high, 1).otherwise(0)).alias("high_line_count"),
            sf.sum(sf.when(~is_high, 1).otherwise(0)).alias("low_line_count"),
        )
        .orderBy("l_shipmode")
    )


def query_13(spark: SparkSession) -> DataFrame:
    orders = spark.table("orders").filter(~col("o_comment").like("%special%requests%"))
    return (
        spark.table("customer")
        .join(orders, col("c_custkey") == col("o_custkey"), "left")
        .groupBy("c_custkey")
        .agg(sf.count("o_orderkey").alias("c_count"))
        .groupBy("c_count")
        .count()
        .withColumnRenamed("count", "custdist")
        .orderBy(sf.desc("custdist"), sf.desc("c_count"))
    )


def query_14(spark: SparkSession) -> DataFrame:
    promoted = sf.when(col("p_type").startswith("PROMO"), _revenue()).otherwise(0)
    return (
        spark.table("lineitem")
        .filter((col("l_shipdate") >= date(1995, 9, 1)) & (col("l_shipdate") < date(1995, 10, 1)))
        .join(spark.table("part"), col("l_partkey") == col("p_partkey"))
        .agg((sf.lit(Decimal("100.00")) * sf.sum(promoted) / sf.sum(_revenue())).alias("promo_revenue"))
    )


def query_15(spark: SparkSession) -> DataFrame:
    revenue = (
        spark.table("lineitem")
        .filter((col("l_shipdate") >= "1996-01-01") & (col("l_shipdate") < "1996-04-01"))
        .groupBy("l_suppkey")
        .agg(sf.sum(_revenue()).alias("total_revenue"))
    )
    best = revenue.agg(sf.max("total_revenue").alias("best_revenue"))
    return (
        spark.table("supplier")
        .join(revenue, col("s_suppkey") == col("l_suppkey"))
        .join(sf.broadcast(best), col("total_revenue") == col("best_revenue"))
        .select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue")
        .orderBy("s_suppkey")
    )


def query_16(spark: SparkSession) -> DataFrame:
    complained = spark.table("supplier").filter(col("s_comment").rlike("Customer.*Complaints"))
    return (
        spark.table("part")
        .filter((col("p_brand") != "Brand#45") & ~col("p_type").startswith("MEDIUM POLISHED"))
        .filter(col("p_size").isin(49, 14, 23, 45, 19, 3, 36, 9))
        .join(spark.table("partsupp"), col("p_partkey") == col("ps_partkey"))
        .join(complained, col("ps_suppkey") == col("s_suppkey"), "left_anti")
        .groupBy("p_brand", "p_type", "p_size")
        .agg(sf.countDistinct("ps_suppkey").alias("supplier_cnt"))
        .orderBy(sf.desc("supplier_cnt"), "p_brand", "p_type", "p_size")
    )


def query_17(spark: SparkSession) -> DataFrame:
    lines = spark.table("lineitem")
    usual = lines.groupBy(col("l_partkey").alias("partkey")).agg(sf.avg("l_quantity").alias("avg_quantity"))
    return (
        spark.table("part")
        .filter((col("p_brand") == "Brand#23") & (col("p_container") == "MED BOX"))
        .join(lines, col("p_partkey") == col("l_partkey"))
        .join(usual, col("p_partkey") == col("partkey"))
        .filter(col("l_quantity") < sf.lit(Decimal("0.2")) * col("avg_quantity"))
        .agg((sf.sum("l_extendedprice") / sf.lit(Decimal("7.0"))).alias("avg_yearly"))
    )


def query_18(spark: SparkSession) -> DataFrame:
    lines = spark.table("lineitem")
    large = lines.groupBy("l_orderkey").agg(sf.sum("l_quantity").alias("quantity")).filter("quantity > 300")
    return (
        spark.table("orders")
        .join(large.select(col("l_orderkey").alias("o_orderkey")), "o_orderkey", "left_semi")
        .join(spark.table("customer"), col("o_custkey") == col("c_custkey"))
        .join(lines, col("o_orderkey") == col("l_orderkey"))
        .groupBy("c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice")
        .agg(sf.sum("l_quantity"))
        .orderBy(sf.desc("o_totalprice"), "o_orderdate")
        .limit(100)
    )


def query_19(spark: SparkSession) -> DataFrame:
    def of_brand(brand: str, containers: list[str], quantity: int, size: int) -> Column:
        return (
            (col("p_brand") == brand)
            & col("p_container").isin(containers)
            & col("l_quantity").between(quantity, quantity + 10)
            & col("p_size").between(1, size)
        )

    wanted = (
        of_brand("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 1, 5)
        | of_brand("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, 10)
        | of_brand("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 20, 15)
    )
    by_air = col("l_shipmode").isin("AIR", "AIR REG") & (col("l_shipinstruct") == "DELIVER IN PERSON")
    return (
        spark.table("lineitem")
        .join(spark.table("part"), col("l_partkey") == col("p_partkey"))
        .filter(by_air & wanted)
        .agg(sf.sum(_revenue()).alias("revenue"))
    )


def query_20(spark: SparkSession) -> DataFrame:
    forest = spark.table("part").filter(col("p_name").startswith("forest"))
    shipped = (
        spark.table("lineitem")
        .filter((sf.year("l_shipdate") == 1994) & col("l_shipdate").between("1994-01-01", "1994-12-31"))
        .groupBy("l_partkey", "l_suppkey")
        .agg((sf.lit(Decimal("0.5")) * sf.sum("l_quantity")).alias("half"))
    )
    overstocked = (
        spark.table("partsupp")
        .join(forest, col("ps_partkey") == col("p_partkey"), "semi")
        .join(shipped, (col("ps_partkey") == col("l_partkey")) & (col("ps_suppkey") == col("l_suppkey")))
        .filter(col("ps_availqty") > col("half"))
        .select("ps_suppkey")
        .distinct()
    )
    return (
        spark.table("supplier")
        .join(
            spark.table("nation").filter(col("n_name") == "CANADA"), col("s_nationkey") == col("n_nationkey")
        )
        .join(overstocked, col("s_suppkey") == col("ps_suppkey"))
        .select("s_name", "s_address")
        .orderBy("s_name")
    )


def query_21(spark: SparkSession) -> DataFrame:
    # an order of several suppliers, only one of which was late
    late_supplier = sf.when(col("l_receiptdate") > col("l_commitdate"), col("l_suppkey"))
    of_order = Window.partitionBy("l_orderkey")
    waiting = (
        spark.table("lineitem")
        .withColumn("suppliers", sf.size(sf.collect_set("l_suppkey").over(of_order)))
        .withColumn("late_suppliers", sf.size(sf.collect_set(late_supplier).over(of_order)))
        .filter(
            (col("l_receiptdate") > col("l_commitdate"))
            & (col("suppliers") > 1)
            & (col("late_suppliers") == 1)
        )
    )
    return (
        spark.table("orders")
        .filter(col("o_orderstatus") == "F")
        .join(waiting, col("o_orderkey") == col("l_orderkey"))
        .join(spark.table("supplier"), col("l_suppkey") == col("s_suppkey"))
        .join(
            spark.table("nation").filter("n_name = 'SAUDI ARABIA'"), col("s_nationkey") == col("n_nationkey")
        )
        .groupBy("s_name")
        .agg(sf.count(sf.lit(1)).alias("numwait"))
        .orderBy(sf.desc("numwait"), "s_name")
        .limit(100)
    )


def query_22(spark: SparkSession) -> DataFrame:
    codes = ["13", "31", "23", "29", "30", "18", "17"]
    customers = (
        spark.table("customer")
        .withColumn("cntrycode", col("c_phone").substr(1, 2))
        .filter(col("cntrycode").isin(codes))
    )
    average = customers.filter(col("c_acctbal") > 0).agg(sf.avg("c_acctbal").alias("average"))
    return (
        customers.crossJoin(average)
        .filter(col("c_acctbal") > col("average"))
        .join(spark.table("orders"), col("c_custkey") == col("o_custkey"), "left_anti")
        .groupBy("cntrycode")
        .agg(sf.count("*").alias("numcust"), sf.sum("c_acctbal").alias("totacctbal"))
        .orderBy("cntrycode")
    )


#: The queries, in their order.
FRAMES = (
    *(query_1, query_2, query_3, query_4, query_5, query_6, query_7, query_8, query_9, query_10, query_11),
    *(query_12, query_13, query_14, query_15, query_16, query_17, query_18, query_19, query_20, query_21),
    query_22,
)
