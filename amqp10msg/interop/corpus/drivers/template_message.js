// A template for a driver of messages: replace read and write by calls of the implementation.
//
// Test the driver with: amqp10msg conformance run --peer ./this_file.js --only "Part 3, 3.2". It
// needs no package besides the implementation.

"use strict";

// Thrown for unsupported requests. lines.js recognizes the class by its name.
class Unsupported extends Error {}

const NAME = "my implementation 1.0";
// The errors that the implementation throws for invalid bytes. Any other error is reported as an
// error of the implementation.
const REFUSALS = [RangeError];

// Decodes a message, and returns the names of its sections with their contents, in their order. The
// content of header and properties is the array of their fields, with null for an absent field; that
// of annotations, application-properties and footer is a Map; that of data is a Buffer; that of
// amqp-sequence is an array; that of amqp-value is a value. This example reads one data section.
function read(data) {
  const head = Buffer.from([0x00, 0x53, 0x75, 0xa0]);
  if (!data.subarray(0, 4).equals(head) || data.length < 5 || data.length !== 5 + data[4]) {
    throw new RangeError("only a data section of up to 255 bytes can be read");
  }
  return [["data", data.subarray(5)]];
}

// Encodes the sections that read has returned.
function write(sections) {
  const [[, content]] = sections;
  return Buffer.concat([Buffer.from([0x00, 0x53, 0x75, 0xa0, content.length]), content]);
}

// Returns a value in typed JSON. Most JavaScript types stand for several AMQP types, so the result
// names the family: numeric, integer, octets, sequence. If the implementation has a class for an
// AMQP type, return the type's name instead: ["uint", 5], ["symbol", "x"], ["char", 97].
function typed(value) {
  if (value === null || value === undefined) return ["null"];
  if (typeof value === "boolean") return ["boolean", value];
  if (typeof value === "bigint") return ["integer", value];
  if (typeof value === "number") {
    if (Number.isFinite(value)) return ["numeric", value];
    const bits = Buffer.alloc(8); // JSON has no infinity
    bits.writeDoubleBE(value);
    return ["double", bits.toString("hex")];
  }
  if (typeof value === "string") return ["octets", Buffer.from(value).toString("hex")];
  if (value instanceof Uint8Array) return ["octets", Buffer.from(value).toString("hex")];
  if (value instanceof Date) return ["timestamp", value.getTime()];
  if (Array.isArray(value)) return ["sequence", value.map(typed)];
  if (value instanceof Map) return ["map", pairs(value)];
  throw new Unsupported(`values of the class ${value.constructor.name} are not supported`);
}

// Returns the pairs of a map in typed JSON.
const pairs = (map) => [...map].map(([key, value]) => [typed(key), typed(value)]);

// Returns a section in typed JSON.
function section([name, content]) {
  if (name === "data") return [name, Buffer.from(content).toString("hex")];
  if (name === "amqp-value") return [name, typed(content)];
  return [name, content instanceof Map ? pairs(content) : content.map(typed)];
}

function requireMessage(kind) {
  if (kind !== "message") throw new Unsupported(`${kind} is not supported`);
}

module.exports = () => ({
  name: NAME,
  refusals: REFUSALS,

  // Returns the sections of a message in typed JSON.
  decode(kind, data) {
    requireMessage(kind);
    return read(data).map(section);
  },

  // Returns the bytes of a message that was decoded and encoded again.
  again(kind, data) {
    requireMessage(kind);
    return write(read(data));
  },
});
