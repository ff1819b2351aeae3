package org.apache.spark.sql.avro

import org.apache.avro.Schema
import org.apache.avro.generic.GenericDatumReader
import org.apache.avro.io.{BinaryDecoder, DecoderFactory}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeGenerator, CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{ExpectsInputTypes, Expression, UnaryExpression}
import org.apache.spark.sql.types.{AbstractDataType, BinaryType, DataType}

/** What `from_avro` of Spark becomes: Avro's reader, then Spark's deserializer. */
case class AvroDataToCatalyst(child: Expression, json: String, options: Map[String, String])
    extends UnaryExpression
    with ExpectsInputTypes {
  @transient private lazy val schema = new Schema.Parser().parse(json)
  @transient private lazy val reader = new GenericDatumReader[Any](schema, schema)
  @transient private lazy val deserializer = new AvroDeserializer(
    schema,
    dataType,
    AvroOptions(options).datetimeRebaseModeInRead,
    useStableIdForUnionType = false,
    stableIdPrefixForUnionType = "",
    recursiveFieldMaxDepth = -1
  )
  @transient private var decoder: BinaryDecoder = _
  @transient private var record: Any = _

  override def inputTypes: Seq[AbstractDataType] = Seq(BinaryType)
  override lazy val dataType: DataType =
    SchemaConverters.toSqlType(schema, false, "", -1).dataType
  override def nullable: Boolean = true
  override def prettyName: String = "from_avro"

  override def nullSafeEval(input: Any): Any = {
    val bytes = input.asInstanceOf[Array[Byte]]
    decoder = DecoderFactory.get().binaryDecoder(bytes, 0, bytes.length, decoder)
    record = reader.read(record, decoder)
    deserializer.deserialize(record).get
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val expression = ctx.addReferenceObj("this", this)
    val boxed = CodeGenerator.boxedType(dataType)
    nullSafeCodeGen(ctx, ev, input => s"${ev.value} = ($boxed) $expression.nullSafeEval($input);")
  }

  override protected def withNewChildInternal(newChild: Expression): AvroDataToCatalyst =
    copy(child = newChild)
}
