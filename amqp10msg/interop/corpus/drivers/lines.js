// Answers requests in JSON lines with a driver in JavaScript; lines.py does the same in Python.
//
//     node lines.js DRIVER.js [ARGUMENT ...]
//
// DRIVER.js exports a function that takes the arguments and returns an object with a name, any of
// the methods decode, encode, again, validate and answer, and refusals: the classes of errors with
// which the implementation refuses bytes. A method throws an error of a class named Unsupported for
// unsupported requests. Any other error is reported as an error of the implementation, and its stack
// is written to standard error. Packages are searched for in the folder in which node was started.

"use strict";

const fs = require("fs");
const path = require("path");
const readline = require("readline");

class Unsupported extends Error {}

// Returns the path of an installed package. With the path, a driver can require files that the
// package does not export.
function folder(name) {
  const folders = [path.resolve("node_modules"), ...(process.env.NODE_PATH || "").split(path.delimiter)];
  const found = folders.filter(Boolean).map((parent) => path.join(parent, name)).find(fs.existsSync);
  if (!found) throw new Error(`${name} is not installed: npm install ${name}`);
  return found;
}

// Returns the version of an installed package.
const version = (name) => JSON.parse(fs.readFileSync(path.join(folder(name), "package.json"))).version;

function answer(driver, request) {
  const kind = request.do;
  if (kind === "name") return { name: driver.name };
  if (!driver[kind]) return { unsupported: `${driver.name} does not ${kind}` };
  if (request.limits) return { unsupported: "the case requires limits, which the implementation does not support" };
  const data = request.data === undefined ? undefined : Buffer.from(request.data, "hex");
  const parameters = {
    encode: [request.kind, request.typed],
    validate: [data, request.profile],
    answer: [request.kind, data, request.given],
  };
  try {
    const result = driver[kind](...(parameters[kind] || [request.kind, data]));
    const key = { decode: "typed", validate: "violations", answer: "answer" }[kind] || "data";
    return { [key]: key === "data" ? Buffer.from(result).toString("hex") : result };
  } catch (error) {
    const reason = `${error && error.name}: ${error && error.message}`.slice(0, 500);
    // Compare names, because a driver may define its own class.
    if (error && error.constructor.name === "Unsupported") return { unsupported: error.message };
    if (!(driver.refusals || []).some((type) => error instanceof type)) {
      // Synchronous, so that the stack is complete before the answer.
      fs.writeSync(2, `${(error && error.stack) || reason}\n`);
      return { error: reason };
    }
    const details = ["rule", "offset"].filter((key) => error[key] !== undefined);
    return { refused: reason, ...Object.fromEntries(details.map((key) => [key, error[key]])) };
  }
}

// Serializes integers of any size, which JSON.stringify cannot.
function json(value) {
  const text = JSON.stringify(value, (_, item) => (typeof item === "bigint" ? `\0${item}` : item));
  return text.replace(/"\\u0000(-?\d+)"/g, "$1");
}

module.exports = { Unsupported, folder, version };

if (require.main === module) {
  // Redirect stdout to stderr, so that what the implementation prints is not read as an answer.
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  const [file, ...settings] = process.argv.slice(2);
  const driver = require(path.resolve(file))(...settings);
  readline.createInterface({ input: process.stdin }).on("line", (line) => {
    write(`${json(answer(driver, JSON.parse(line)))}\n`);
  });
}
