package amqp10msg.spark.jvm

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.expressions.{BindReferences, BoundReference, Expression}
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, GetStructField, JoinedRow}
import org.apache.spark.sql.catalyst.expressions.{PythonUDF, UnsafeProjection}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.python.ArrowEvalPythonExec
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan, UnaryExecNode}
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
  * @param kind how Python evaluates it.
  */
private[jvm] final case class UsualStructsExec(
    function: PythonUDF,
    made: Attribute,
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
    val bound = BindReferences.bindReference(function.children.head, child.output)
    val reading = Struct(Marked.columns(made.dataType).toArray, bound)
    val odd = longMetric(UsualRowsExec.ODD)
    val reader = () => reading.behind(output)
    new UsualRowsRDD(rows, handed, python.execute(), reader, odd)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): UsualStructsExec =
    copy(child = newChild)
}

/** A struct that a function of Python returns, and its fields as columns in its place.
  *
  * @param made the column with the struct.
  * @param all a column for each field.
  */
private[jvm] final class Fields(made: Attribute, val all: Seq[Attribute]) {
  def this(made: Attribute) = this(
    made,
    made.dataType
      .asInstanceOf[StructType]
      .map(field => AttributeReference(field.name, field.dataType, nullable = true)())
  )

  /** Return an expression that takes the columns where it took fields. */
  def in(expression: Expression): Expression = expression.transform {
    case GetStructField(one: Attribute, at, _) if one.exprId == made.exprId => all(at)
  }
}

/** Decodes usual messages to the fields of structs here, and has Python evaluate its function on the
  * odd ones.
  *
  * @param function of Python, with one argument.
  * @param made the column with the struct, which is not made here.
  * @param fields a column for each field of it.
  * @param kind how Python evaluates it.
  */
private[jvm] final case class UsualFieldsExec(
    function: PythonUDF,
    made: Attribute,
    fields: Seq[Attribute],
    kind: Int,
    child: SparkPlan
) extends UnaryExecNode {
  override def output: Seq[Attribute] = fields

  override def producedAttributes = outputSet

  override lazy val metrics: Map[String, SQLMetric] = Map(
    UsualRowsExec.ODD -> SQLMetrics.createMetric(sparkContext, "number of rows decoded in Python")
  )

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val handed = new Handed(rows.getNumPartitions, sparkContext)
    val struct = Marked.without(made)
    val evaluated =
      ArrowEvalPythonExec(Seq(function), Seq(struct), HandedExec(child.output, handed), kind)
    val taken = fields.zipWithIndex.map { case (one, at) =>
      Alias(GetStructField(struct, at), one.name)(exprId = one.exprId)
    }
    val message = BindReferences.bindReference(function.children.head, child.output)
    val reading = Struct(Marked.columns(made.dataType).toArray, message)
    val odd = longMetric(UsualRowsExec.ODD)
    new UsualRowsRDD(rows, handed, ProjectExec(taken, evaluated).execute(), reading.fields _, odd)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): UsualFieldsExec =
    copy(child = newChild)
}

/** How a struct is made of a message.
  *
  * @param message what gives it, of a row of the child.
  */
private[jvm] final case class Struct(columns: Array[Column], message: Expression) {

  /** Return what makes rows of its fields, for one task. */
  def fields(): InternalRow => InternalRow = {
    val messages = new Message(new Plan(columns))
    row => messages.read(message.eval(row).asInstanceOf[Array[Byte]])
  }

  /** Return what makes rows of what the child gives and the struct, for one task.
    *
    * @param output all columns of the row, the struct last.
    */
  def behind(output: Seq[Attribute]): InternalRow => InternalRow = {
    val read = fields()
    val both = new JoinedRow
    val struct = new GenericInternalRow(1)
    val row = UnsafeProjection.create(output.zipWithIndex.map { case (one, at) =>
      BoundReference(at, one.dataType, one.nullable && at < output.length - 1)
    })
    given => {
      struct(0) = read(given)
      if (struct.isNullAt(0)) null else row(both(given, struct))
    }
  }
}
