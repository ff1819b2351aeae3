// A template for a driver: set the name, and call the functions of the implementation.
//
// Test the driver with: amqp10msg conformance run --peer ./this_file.js. Cases that need a method
// that the driver lacks are skipped.

"use strict";

// Thrown for unsupported requests. lines.js recognizes the class by its name.
class Unsupported extends Error {}

module.exports = () => ({
  name: "my implementation 1.0",

  // The errors that the implementation throws for invalid bytes. Any other error is reported as an
  // error of the implementation.
  refusals: [RangeError],

  // Returns the decoded value in typed JSON, or null if the value cannot be shown. If the
  // implementation does not preserve a type, replace the type by its family: integer, number,
  // octets, sequence or decimal. If all its numbers are doubles, use numeric.
  decode(kind, data) {
    if (kind !== "value") throw new Unsupported(`${kind} is not supported`);
    if (data.equals(Buffer.from([0x41]))) return ["boolean", true];
    throw new RangeError(data.length ? `constructor ${data[0]} is not known` : "no bytes");
  },

  // Returns the encoding of typed JSON.
  encode(kind, typed) {
    if (typed[0] === "boolean" && typed[1] === true) return Buffer.from([0x41]);
    throw new Unsupported(`${kind} ${typed} is not supported`);
  },
});
