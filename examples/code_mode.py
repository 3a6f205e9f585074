"""Use code mode: the model writes one program instead of twelve calls, and reads one number.

Prints the program, the calls that it makes, and the answer. The model is scripted. It needs an extra: pip install
"function-toolkit[code]".
"""

from toolkit import Runner, tool
from toolkit.builtin import code_tool
from toolkit.display import show
from toolkit.testing import ScriptedModel, call


@tool(effect="read")
def rainfall(city: str, month: int) -> float:
    """Rain of a month, in millimetres.

    Args:
        city: Name of the city.
        month: 1 to 12.
    """
    return {"Bergen": 190.0, "Oslo": 66.0}[city] + month


PROGRAM = """
import asyncio
months = await asyncio.gather(*[rainfall("Bergen", month) for month in range(1, 13)])
sum(months)
"""

model = ScriptedModel([call("run_code", code=PROGRAM), "In Bergen it rains 2,358 mm a year."])
runner = Runner([code_tool([rainfall])], model=model)
show(runner.stream("How much does it rain in Bergen in a year?"))
