"""Read files through an MCP server, and serve them to any MCP client.

`python examples/mcp_files.py` starts itself as a server of file tools, gives a run its tools, and prints the run. The
model is scripted. Needs an extra: pip install "function-toolkit[mcp]".
"""

import sys
import tempfile
from pathlib import Path

from toolkit import Runner
from toolkit.builtin import file_tools
from toolkit.display import show
from toolkit.serve.mcp import serve
from toolkit.sources.mcp import MCP
from toolkit.testing import ScriptedModel, call


def main() -> None:
    """Ask about a folder that a server reads."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "birds.txt").write_text("Seven birds are on the pond.\n", encoding="utf-8")
        model = ScriptedModel(
            [
                [call("mcp_files_file_list")],
                [call("mcp_files_file_read", path="birds.txt")],
                "There are seven birds on the pond.",
            ]
        )
        with MCP([sys.executable, __file__, folder], name="files", allow=["file_list", "file_read"]) as server:
            show(Runner([server], model=model).stream("How many birds are on the pond?"))


if __name__ == "__main__":
    if sys.argv[1:]:
        serve(file_tools(sys.argv[1]))  # the server: standard input and output
    else:
        main()
