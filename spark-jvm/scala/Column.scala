package amqp10msg.spark.jvm

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.sql.types.{DataType, VariantType}

/** A column that Python asks for.
  *
  * @param section of an entry of a map section, the column of that; else empty.
  * @param source the key of the entry; else the column's name in the declarations.
  * @param sql of an entry, a type of SQL, or empty for the struct; of a map section, whether it is a
  *   VARIANT.
  */
private[jvm] final case class Column(section: String, source: String, sql: String) {

  /** Whether what is read here is of this type. */
  def is(kind: DataType): Boolean =
    if (sql == Column.VARIANT) kind == VariantType
    else if (section.isEmpty && Column.OTHERS.contains(source)) true
    else {
      val known = if (section.isEmpty) Tables.COLUMNS.get(source) else Tables.PICKS.get(sql)
      // The text says nothing of nulls.
      known.exists(DataType.fromJson(_).catalogString == kind.catalogString)
    }
}

private[jvm] object Column {
  final val VARIANT = "variant"
  final val WIRE = "wire"
  // What Spark has already, and what is null where Python is not asked.
  private val OTHERS =
    Set(WIRE, "message_format", "error", "error_code", "error_clause", "error_offset")

  /** Read what Python asks for: a JSON array of `section`, `source` and `sql` for each column. */
  def all(json: String): Vector[Column] = {
    import scala.jdk.CollectionConverters._
    val asked: JsonNode = new ObjectMapper().readTree(json)
    asked
      .elements()
      .asScala
      .map(one => Column(one.get(0).asText, one.get(1).asText, one.get(2).asText))
      .toVector
  }
}
