"""`python -m pytest_fastdur.zoo`: hunts every animal and prints the table of the docs."""

from __future__ import annotations

from pytest_fastdur.zoo import ANIMALS, hunt


def row(name: str, code: str, points: int, seconds: float) -> str:
    """One line of the table."""
    known = ANIMALS[name]
    tool = f"{known.tool} ({known.story})"
    return f"| `{name}` | {known.what} | {tool} | {code} | {points} | {seconds:.1f} |"


def main() -> None:
    """Hunt them all."""
    print("| animal | what it does | caught by (story) | as | points | seconds |")  # noqa: T201 - that is how it answers
    print("|---|---|---|---|---|---|")  # noqa: T201
    for name, animal in ANIMALS.items():
        catch = hunt(animal)
        print(row(name, str(catch.code), catch.points, catch.seconds), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
