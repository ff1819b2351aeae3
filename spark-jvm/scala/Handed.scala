package amqp10msg.spark.jvm

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.LeafExecNode

/** Rows that one operator hands to another in the same task: an RDD without rows of its own. */
private[jvm] final class Handed(count: Int, @transient context: SparkContext)
    extends RDD[InternalRow](context, Nil) {
  private val number = Handed.numbers.incrementAndGet()

  override protected def getPartitions: Array[Partition] =
    Array.tabulate(count)(new HandedPartition(_))

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    Handed.rows.remove((number, context.taskAttemptId()))

  /** Have `made` read these rows of this RDD. */
  def to(context: TaskContext, rows: Iterator[InternalRow])(
      made: => Iterator[InternalRow]
  ): Iterator[InternalRow] = {
    Handed.rows.put((number, context.taskAttemptId()), rows)
    made
  }
}

private[jvm] object Handed {
  private val numbers = new AtomicLong
  private val rows = new ConcurrentHashMap[(Long, Long), Iterator[InternalRow]]
}

private[jvm] final class HandedPartition(override val index: Int) extends Partition

private[jvm] final case class HandedExec(output: Seq[Attribute], handed: Handed)
    extends LeafExecNode {
  override protected def doExecute(): RDD[InternalRow] = handed
}
