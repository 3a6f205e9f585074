"""Undo what a run has done: automatically when it fails, or later by a call.

In the first run, the third of three bookings fails, and the other two are cancelled, the last one first. The second run
succeeds, and the customer cancels the trip later. The model is scripted: no key is needed.
"""

from toolkit import FatalError, Runner, tool
from toolkit.testing import ScriptedModel, call


def cancel_booking(booking: str) -> None:
    """Cancel what was booked: the parameter gets the result of the call."""
    print(f"  cancelled  {booking}")


@tool(effect="write", undo=cancel_booking)
def book_flight(to: str) -> str:
    """Book a flight; returns the booking."""
    print(f"  booked     flight to {to}")
    return f"flight to {to}"


@tool(effect="write", undo=cancel_booking)
def book_hotel(city: str, nights: int) -> str:
    """Book a hotel; returns the booking."""
    print(f"  booked     hotel in {city}, {nights} nights")
    return f"hotel in {city}, {nights} nights"


def return_car(city: str) -> None:
    """Return the car: a parameter with the name of one of the call's parameters gets its argument."""
    print(f"  returned   the car in {city}")


@tool(effect="write", undo=return_car)
def rent_car(city: str) -> None:
    """Rent a car."""
    if city == "Venice":
        raise FatalError("There are no cars in Venice.")
    print(f"  rented     a car in {city}")


def make_runner(city: str) -> Runner:
    """Make a runner whose model books a trip."""
    trip = [call("book_flight", to=city), call("book_hotel", city=city, nights=3), call("rent_car", city=city)]
    script = ScriptedModel([trip, f"Your trip to {city} is booked."])
    return Runner([book_flight, book_hotel, rent_car], model=script, undo_on_failure=True)


print("A trip to Venice:")
try:
    make_runner("Venice").run("Book a trip to Venice.")
except FatalError as error:
    print(f"  failed:    {error}")

print("A trip to Rome:")
runner = make_runner("Rome")
result = runner.run("Book a trip to Rome.")
print(f"  answer:    {result.output}")
print("The customer calls it off:")
undone = runner.undo(result.state)
print(f"  outcomes:  {', '.join(f'{each.call.name} {each.outcome}' for each in undone)}")
print(f"  once more: {len(runner.undo(result.state))} calls are undone already, and nothing is cancelled twice")
