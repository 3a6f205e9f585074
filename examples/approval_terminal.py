"""Ask for approval in the terminal before a payment.

Reading the balance needs no approval. Each payment is displayed with its arguments, and the user approves it, rejects
it with a reason, or changes the arguments. Prints the questions, the answers and the result of each call. Without a
terminal the answers are scripted. The model is scripted, too: no key is needed.
"""

import sys

from toolkit import Runner, tool
from toolkit.approvers import Console, ask_when
from toolkit.testing import ScriptedModel, call

balance = {"checking": 500}


@tool(effect="read")
def read_balance(account: str) -> int:
    """Read the balance of an account, in euros."""
    return balance[account]


@tool(effect="destructive")
def pay(account: str, to: str, amount: int) -> str:
    """Pay a person.

    Args:
        amount: In euros.
    """
    balance[account] -= amount
    return f"{to} has got {amount} euros"


answers = iter(["yes", "edit", '{"account": "checking", "to": "Bob", "amount": 20}', "no who is Mallory?"])


def scripted(prompt: str) -> str:
    """Answer as a person might."""
    answer = next(answers)
    print(f"{prompt}{answer}")
    return answer


console = Console() if sys.stdin.isatty() else Console(read=scripted)
model = ScriptedModel(
    [
        call("read_balance", account="checking"),
        call("pay", account="checking", to="Ann", amount=30),
        call("pay", account="checking", to="Bob", amount=200),
        call("pay", account="checking", to="Mallory", amount=100),
        "That is all.",
    ]
)
runner = Runner([read_balance, pay], model=model, approve=ask_when(console, effects=["write", "destructive"]))
result = runner.run("Read my balance, then pay Ann 30, Bob 200 and Mallory 100 euros.")

print()
for finished in result.calls:
    print(f"{finished.name}{finished.arguments}: {finished.result.text}")
print(f"{result}  {balance['checking']} euros are left.")
