"""Graphs as LangGraph runs them over its own PostgresSaver, in one process:
`python langgraph_work.py URL GRAPHS STEPS`.

Prints `ready` when warm, waits for a line, and prints the seconds that the graphs took.
"""

from __future__ import annotations

import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

TEXT = "word " * 205
"""1 KiB, as in `bench.workload`."""
THREADS = 32


class State(TypedDict):
    text: str
    loop: int


def main(url: str, graphs: int, steps: int) -> None:
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    with ConnectionPool(url, min_size=THREADS, max_size=THREADS, kwargs=options) as pool:
        # the rows of the pool are dicts by its `kwargs`, which its type cannot tell
        saver = PostgresSaver(pool)  # type: ignore[arg-type]
        graph = StateGraph(State)
        graph.add_node(
            "noop", lambda state: {"text": f"{state['loop']} {TEXT}", "loop": state["loop"] + 1}
        )
        graph.add_edge(START, "noop")
        graph.add_conditional_edges("noop", lambda state: END if state["loop"] >= steps else "noop")
        compiled = graph.compile(checkpointer=saver)

        def one(_: int) -> None:
            config: RunnableConfig = {
                "configurable": {"thread_id": str(uuid.uuid4())},
                "recursion_limit": steps + 5,
            }
            compiled.invoke(State(text="", loop=0), config)

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(one, range(64)))
            print("ready", flush=True)
            sys.stdin.readline()
            began = time.perf_counter()
            list(threads.map(one, range(graphs)))
            print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
