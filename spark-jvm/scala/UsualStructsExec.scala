package amqp10msg.spark.jvm

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, BindReferences}
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, GenericInternalRow}
import org.apache.spark.sql.catalyst.expressions.{JoinedRow, PythonUDF, UnsafeProjection}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.python.ArrowEvalPythonExec
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.types.{DataType, Metadata, StructType}

/** Types with the mark: that of a function which gives the columns of a message as a struct. */
private[jvm] object Marked {
  def is(attribute: Attribute): Boolean = columns(attribute.dataType).nonEmpty

  /** The columns that a type asks for; none where it has no mark. */
  def columns(kind: DataType): Seq[Column] = kind match {
    case struct: StructType
        if struct.nonEmpty && struct.head.metadata.contains(Extensions.MARK) =>
      Column.all(struct.head.metadata.getString(Extensions.MARK))
    case _ => Nil
  }

  /** Whether all columns of a type can be read here. */
  def areRead(kind: DataType): Boolean = kind match {
    case struct: StructType =>
      val asked = columns(struct)
      asked.length == struct.length &&
      asked.zip(struct.fields).forall { case (one, field) => one.is(field.dataType) }
    case _ => false
  }

  def without(kind: DataType): DataType = kind match {
    case struct: StructType if columns(struct).nonEmpty =>
      StructType(struct.head.copy(metadata = Metadata.empty) +: struct.fields.tail)
    case other => other
  }

  def without(attribute: Attribute): Attribute = attribute match {
    case one: AttributeReference => one.withDataType(without(one.dataType))
    case other => other
  }
}

/** Decodes usual messages to structs here, and has Python evaluate its function on the odd ones.
  *
  * @param function of Python, with one argument.
  * @param made the column that comes behind those of the child.
  * @param message the argument.
  * @param kind how Python evaluates it.
  */
private[jvm] final case class UsualStructsExec(
    function: PythonUDF,
    made: Attribute,
    message: Expression,
    kind: Int,
    child: SparkPlan
) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output :+ made

  override def producedAttributes = outputSet -- child.outputSet

  override lazy val metrics: Map[String, SQLMetric] = Map(
    UsualRowsExec.ODD -> SQLMetrics.createMetric(sparkContext, "number of rows decoded in Python")
  )

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val handed = new Handed(rows.getNumPartitions, sparkContext)
    val result = Seq(Marked.without(made))
    val python =
      ArrowEvalPythonExec(Seq(function), result, HandedExec(child.output, handed), kind)
    val bound = BindReferences.bindReference(message, child.output)
    val reading = Struct(Marked.columns(made.dataType).toArray, bound, output)
    val odd = longMetric(UsualRowsExec.ODD)
    new UsualRowsRDD(rows, handed, python.execute(), reading.reader _, odd)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): UsualStructsExec =
    copy(child = newChild)
}

/** How a row with a struct is made: of what the child gives, and of its message.
  *
  * @param message what gives it, of a row of the child.
  * @param output all columns of the row, the struct last.
  */
private[jvm] final case class Struct(
    columns: Array[Column],
    message: Expression,
    output: Seq[Attribute]
) {

  /** Return what makes rows, for one task. */
  def reader(): InternalRow => InternalRow = {
    val messages = new Message(new Plan(columns))
    val both = new JoinedRow
    val struct = new GenericInternalRow(1)
    val row = UnsafeProjection.create(output.zipWithIndex.map { case (one, at) =>
      BoundReference(at, one.dataType, one.nullable && at < output.length - 1)
    })
    given => {
      struct(0) = messages.read(message.eval(given).asInstanceOf[Array[Byte]])
      if (struct.isNullAt(0)) null else row(both(given, struct))
    }
  }
}
