"""State rows by hash partition, from the words of Spark's events."""

from __future__ import annotations

from headrace.ops.statecount import StateCounter


def description(query: str, batch: int) -> str:
    return f"{query}\nid = 1-2\nrunId = 3-4\nbatch = {batch}"


def accumulators(*operators: tuple[int, int]) -> str:
    told = [
        f"AccumulableInfo({n},Some(number of total state rows),Some({rows}),Some(9),true)"
        for n, rows in operators
    ]
    return f"List(AccumulableInfo(1,Some(duration),Some(5),Some(5),true), {', '.join(told)})"


def test_a_partition_is_the_index_of_its_task() -> None:
    counter = StateCounter()
    counter.job_started(description("hourly", 0), [4])
    counter.task_ended(4, 1, accumulators((7, 20)))
    counter.task_ended(4, 0, accumulators((7, 10)))
    assert counter.rows("hourly") == (10, 20)


def test_operators_of_one_query_add_up() -> None:
    counter = StateCounter()
    counter.job_started(description("hourly", 0), [4])
    counter.task_ended(4, 0, accumulators((7, 10), (8, 5)))
    assert counter.rows("hourly") == (15,)


def test_each_batch_has_counts_of_its_own() -> None:
    counter = StateCounter()
    for number, rows in enumerate((10, 30)):
        counter.job_started(description("hourly", number), [number])
        counter.task_ended(number, 0, accumulators((number, rows)))
    assert counter.rows("hourly", 0) == (10,)
    assert counter.rows("hourly", 1) == counter.rows("hourly") == (30,)
    assert counter.rows("hourly", 2) == ()


def test_a_stateful_task_that_counts_nothing_has_an_empty_partition() -> None:
    counter = StateCounter()
    counter.job_started(description("hourly", 0), [0])
    counter.task_ended(0, 1, accumulators((1, 4)))
    counter.job_started(description("hourly", 1), [1])
    for partition in (0, 1):
        counter.task_ended(
            1, partition, "List(AccumulableInfo(9,Some(time to commit changes),Some(0),Some(0)))"
        )
    assert counter.rows("hourly", 0) == (0, 4)
    assert counter.rows("hourly") == (0, 0)


def test_a_task_without_state_says_nothing() -> None:
    counter = StateCounter()
    counter.job_started(description("hourly", 0), [0])
    counter.task_ended(0, 0, "List(AccumulableInfo(9,Some(duration),Some(5),Some(5)))")
    assert counter.rows("hourly") == ()


def test_other_jobs_and_other_queries_are_kept_apart() -> None:
    counter = StateCounter()
    counter.job_started("count at <stdin>:1", [1])
    counter.job_started(description("daily", 0), [2])
    counter.task_ended(1, 0, accumulators((1, 4)))
    counter.task_ended(2, 0, accumulators((2, 6)))
    assert counter.rows("daily") == (6,)
    assert counter.rows("hourly") == ()
