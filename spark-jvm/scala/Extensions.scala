package amqp10msg.spark.jvm

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, Expression}
import org.apache.spark.sql.catalyst.expressions.{ExpressionInfo, Literal, NamedExpression}
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.catalyst.plans.logical.{ArrowEvalPython, Filter, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.logical.{MapInArrow, Project}
import org.apache.spark.sql.execution.python.ArrowEvalPythonExec
import org.apache.spark.sql.execution.{FilterExec, ProjectExec, SparkPlan, SparkStrategy}
import org.apache.spark.sql.types.BinaryType

/** What a session needs, also of Spark Connect: the setting `spark.sql.extensions`. */
class Extensions extends (SparkSessionExtensions => Unit) {
  // The operators of another line of Spark may be others; without this, Python decodes all.
  override def apply(extensions: SparkSessionExtensions): Unit =
    if (SPARK_VERSION.startsWith(Tables.SPARK + ".")) inject(extensions)

  private def inject(extensions: SparkSessionExtensions): Unit = {
    extensions.injectPlannerStrategy(_ => UsualRows)
    // Tells Python that it is here, and made of which declarations.
    val version = FunctionIdentifier(Extensions.FUNCTION)
    val info = new ExpressionInfo(classOf[Extensions].getName, Extensions.FUNCTION)
    extensions.injectFunction((version, info, (_: Seq[Expression]) => Literal(Tables.VERSION)))
  }
}

object Extensions {
  val FUNCTION = "amqp10_jvm_version"

  /** What Python writes into the metadata of the column of messages, or of the first field of the
    * struct that a function returns.
    */
  val MARK = "amqp10msg.decode"
}

/** Plans `mapInArrow` over a column of messages with the mark, and a function that returns a struct
  * with it, so that Python gets odd rows only.
  *
  * Of `mapInArrow`, what comes first of the columns that come out are the first of those that go in; then come the
  * columns that the mark tells. Where anything is not as it was when the tables were made, Spark
  * plans as ever.
  */
private[jvm] object UsualRows extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case MapInArrow(function, output, child, false, None) =>
      child.output.indexWhere(_.metadata.contains(Extensions.MARK)) match {
        case -1 => Nil
        case at => planned(function, output, child, at)
      }
    case Project(list, Filter(condition, one: ArrowEvalPython)) =>
      ofFields(one, list, Some(condition)).toSeq
    case Project(list, one: ArrowEvalPython) => ofFields(one, list, None).toSeq
    case ArrowEvalPython(functions, made, child, kind) if made.exists(Marked.is) =>
      Seq(evaluated(functions, made, child, kind))
    case _ => Nil
  }

  /** Plan a function of SQL where nothing but fields of its struct is used: no struct is made. */
  private def ofFields(
      plan: ArrowEvalPython,
      list: Seq[NamedExpression],
      condition: Option[Expression]
  ): Option[SparkPlan] = (plan.udfs, plan.resultAttrs) match {
    case (Seq(function), Seq(made)) if Marked.is(made) && isReadOf(function) =>
      val some = new Fields(made)
      // Where they are just what is selected, nothing copies them once more.
      val isAll = list.map(some.in(_).children) == some.all.map(Seq(_))
      val fields = if (isAll) new Fields(made, list.map(_.toAttribute)) else some
      val used =
        if (isAll) fields.all else list.map(one => fields.in(one).asInstanceOf[NamedExpression])
      val wanted = condition.map(fields.in)
      if ((used ++ wanted).exists(!_.references.subsetOf(AttributeSet(fields.all)))) None
      else {
        val plain = function.copy(dataType = Marked.without(function.dataType))
        val child = planLater(plan.child)
        val rows = UsualFieldsExec(plain, made, fields.all, plan.evalType, child)
        val passed = wanted.fold[SparkPlan](rows)(FilterExec(_, rows))
        Some(if (isAll) passed else ProjectExec(used, passed))
      }
    case _ => None
  }

  /** Plan functions of SQL. Where Python evaluates them, the mark goes, since Spark holds what comes
    * to the type that was declared.
    */
  private def evaluated(
      functions: Seq[PythonUDF],
      made: Seq[Attribute],
      child: LogicalPlan,
      kind: Int
  ): SparkPlan = {
    val plain = functions.map(one => one.copy(dataType = Marked.without(one.dataType)))
    val results = made.map(Marked.without)
    functions match {
      case Seq(function) if isReadOf(function) =>
        UsualStructsExec(plain.head, made.head, kind, planLater(child))
      case _ => ArrowEvalPythonExec(plain, results, planLater(child), kind)
    }
  }

  /** Whether the messages can be had here, and all that is asked of them. */
  private def isReadOf(function: PythonUDF): Boolean = function.children match {
    case Seq(message) =>
      message.dataType == BinaryType && message.deterministic &&
      !message.exists(_.isInstanceOf[PythonUDF]) && Marked.areRead(function.dataType)
    case _ => false
  }

  private def planned(
      function: Expression,
      output: Seq[Attribute],
      child: LogicalPlan,
      at: Int
  ): Seq[SparkPlan] = {
    val columns = Column.all(child.output(at).metadata.getString(Extensions.MARK))
    val kept = output.length - columns.length
    val isKnown = kept >= 0 &&
      columns.zip(output.drop(kept)).forall { case (one, attribute) => one.is(attribute.dataType) }
    val isKept = isKnown && child.output.zip(output).take(kept).forall { case (given, made) =>
      given.dataType == made.dataType
    }
    if (!isKept) Nil
    else Seq(UsualRowsExec(function, output, columns, at, planLater(child)))
  }
}
