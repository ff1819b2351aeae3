// The worker of the inspector: runs Python, the library, and a session for the input.
import { loadPyodide } from "./pyodide.mjs";

let show = null;

const start = async () => {
  postMessage({ progress: "Loading Python …" });
  const python = await loadPyodide({ indexURL: new URL(".", import.meta.url).href });
  postMessage({ progress: "Loading amqp10msg …" });
  const library = await fetch(new URL("amqp10msg.zip", import.meta.url));
  if (!library.ok) throw new Error(`amqp10msg.zip: ${library.status} ${library.statusText}`);
  python.unpackArchive(await library.arrayBuffer(), "zip", { extractDir: "/lib/amqp10msg" });
  show = python.runPython(`
import sys

sys.path.insert(0, "/lib/amqp10msg")
import amqp10msg
from amqp10msg.app.inspector.session import Session

session = Session(b"")

def show(request):
    global session
    if request.data is not None:
        session = Session(
            request.data.to_bytes(),
            request.name,
            exchange=request.exchange,
            routing_key=request.routingKey,
        )
    made = session.show(
        request.number, profile=request.profile, translation=request.translation
    )
    return [made.html, made.link, made.exchange, made.routing_key]

show
`);
  const version = python.runPython(
    'f"amqp10msg {amqp10msg.__version__} on Python {sys.version.split()[0]}"',
  );
  postMessage({ ready: version });
};

const failure = (error) => String(error.message || error).trim().split("\n").pop();

onmessage = ({ data: request }) => {
  try {
    const made = show({ data: undefined, name: "", ...request });
    const [html, link, exchange, routingKey] = made.toJs();
    made.destroy();
    postMessage({ id: request.id, html, link, exchange, routingKey });
  } catch (error) {
    postMessage({ id: request.id, failed: failure(error) });
  }
};

start().catch((error) => postMessage({ failed: `Python does not start: ${failure(error)}` }));
