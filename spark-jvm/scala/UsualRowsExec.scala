package amqp10msg.spark.jvm

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, BoundReference, Expression}
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.python.MapInArrowExec
import org.apache.spark.sql.types.{IntegerType, StructField, StructType}
import org.apache.spark.{OneToOneDependency, Partition, TaskContext}

/** Decodes usual messages here, and has Python decode the odd ones by Spark's own operator.
  *
  * @param function what `mapInArrow` was given.
  * @param output the columns that are kept, then those of `columns`.
  * @param message the place of the column of messages in what the child gives.
  */
private[jvm] final case class UsualRowsExec(
    function: Expression,
    output: Seq[Attribute],
    columns: Seq[Column],
    message: Int,
    child: SparkPlan
) extends UnaryExecNode {
  override def producedAttributes = outputSet

  /** What the page of a query shows of this operator. */
  override lazy val metrics: Map[String, SQLMetric] = Map(
    UsualRowsExec.ODD -> SQLMetrics.createMetric(sparkContext, "number of rows decoded in Python")
  )

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val handed = new Handed(rows.getNumPartitions, sparkContext)
    val python = MapInArrowExec(function, output, HandedExec(child.output, handed), false, None)
    val kept = child.output.take(output.length - columns.length)
    val isInt = formatAt >= 0 && child.output(formatAt).dataType == IntegerType
    val made = Row(columns.toArray, message, formatAt, isInt, kept, output)
    new UsualRowsRDD(rows, handed, python.execute(), made.reader _, longMetric(UsualRowsExec.ODD))
  }

  private def formatAt: Int = child.output.indexWhere(_.metadata.contains(UsualRowsExec.FORMAT))

  override protected def withNewChildInternal(newChild: SparkPlan): UsualRowsExec =
    copy(child = newChild)
}

private[jvm] object UsualRowsExec {
  val ODD = "odd"

  /** The mark of the column of message-formats. */
  val FORMAT = "amqp10msg.message_format"
}

/** How a row is made: of what the child gives, and of its message.
  *
  * @param message the place of the message in what the child gives.
  * @param format that of its message-format; -1 for none.
  * @param kept what the row begins with.
  * @param output all columns of the row.
  */
private[jvm] final case class Row(
    columns: Array[Column],
    message: Int,
    format: Int,
    isIntFormat: Boolean,
    kept: Seq[Attribute],
    output: Seq[Attribute]
) {

  /** Return what makes rows, for one task. */
  def reader(): InternalRow => InternalRow = {
    val plan = new Plan(columns)
    val messages = new Message(plan)
    val place = if (format < 0) -1 else plan.format
    val decode = (row: InternalRow) => {
      val made = messages.read(if (row.isNullAt(message)) null else row.getBinary(message))
      if (made != null && place >= 0 && !row.isNullAt(format))
        made.setLong(place, if (isIntFormat) row.getInt(format).toLong else row.getLong(format))
      made
    }
    if (kept.isEmpty) decode
    else {
      val first = UnsafeProjection.create(kept.zipWithIndex.map { case (one, at) =>
        BoundReference(at, one.dataType, one.nullable)
      })
      val joiner = GenerateUnsafeRowJoiner.create(typeOf(kept), typeOf(output.drop(kept.length)))
      row => {
        val made = decode(row)
        if (made == null) null else joiner.join(first(row), made)
      }
    }
  }

  private def typeOf(attributes: Seq[Attribute]): StructType =
    StructType(attributes.map(one => StructField(one.name, one.dataType, one.nullable)))
}

/** The usual rows of a partition as they come, and the odd ones behind them, or behind many others. */
private[jvm] final class UsualRowsRDD(
    rows: RDD[InternalRow],
    handed: Handed,
    python: RDD[InternalRow],
    reader: () => InternalRow => InternalRow,
    oddRows: SQLMetric
) extends RDD[InternalRow](
      rows.sparkContext,
      Seq(new OneToOneDependency(rows), new OneToOneDependency(python))
    ) {
  override protected def getPartitions: Array[Partition] = rows.partitions

  override protected def getPreferredLocations(split: Partition): Seq[String] =
    rows.preferredLocations(split)

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    new UsualRowsIterator(
      rows.iterator(split, context),
      odd => {
        oddRows += odd.length
        handed.to(context, odd.iterator) {
          python.iterator(python.partitions(split.index), context)
        }
      },
      reader()
    )
}

private[jvm] final class UsualRowsIterator(
    rows: Iterator[InternalRow],
    byPython: Array[InternalRow] => Iterator[InternalRow],
    read: InternalRow => InternalRow
) extends Iterator[InternalRow] {
  private val odd = new ArrayBuffer[InternalRow]
  private var oddBytes = 0L
  private var late: Iterator[InternalRow] = Iterator.empty
  private var found: InternalRow = _

  override def hasNext: Boolean = {
    while (found == null) {
      if (late.hasNext) found = late.next()
      else if (odd.length >= UsualRowsIterator.MOST || oddBytes >= UsualRowsIterator.MOST_BYTES)
        askPython()
      else if (rows.hasNext) {
        val row = rows.next()
        found = read(row)
        if (found == null) keep(row)
      } else if (odd.nonEmpty) askPython()
      else return false
    }
    true
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("there are no more rows")
    val row = found
    found = null
    row
  }

  private def keep(row: InternalRow): Unit = {
    val copy = row.copy()
    odd += copy
    oddBytes += (copy match {
      case one: UnsafeRow => one.getSizeInBytes
      case _ => 0
    })
  }

  private def askPython(): Unit = {
    val asked = odd.toArray
    odd.clear()
    oddBytes = 0
    late = byPython(asked)
  }
}

private[jvm] object UsualRowsIterator {

  /** As many rows and bytes as Spark sends to Python at once. */
  private final val MOST = 10000
  private final val MOST_BYTES = 64L << 20
}
