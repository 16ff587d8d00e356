"""A load generator: `python -m benchmarks.load PORT TASK KIND CONNECTIONS REQUESTS` asks with the body on its input.

Every connection sends its next request as soon as the answer to the last is there, and stays open. The result is one JSON
object: seconds, latencies in milliseconds, and the number of answers that were not 200. With REQUESTS 0 it goes on until a
line comes in after the body.
"""

import asyncio
import json
import sys
import time


class Generator:
    """So many requests over so many connections."""

    def __init__(self, port: int, request: bytes, requests: int | None) -> None:
        self.port, self.request, self.left = port, request, requests
        self.latencies: list[float] = []
        self.errors = 0
        self.stopped = False

    def another(self) -> bool:
        if self.left is not None:
            self.left -= 1
            return self.left >= 0
        return not self.stopped

    async def connection(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while self.another():
            started = time.perf_counter()
            writer.write(self.request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            self.latencies.append(1000 * (time.perf_counter() - started))
            self.errors += not head.startswith(b"HTTP/1.1 200")
        writer.close()

    async def run(self, connections: int) -> float:
        started = time.perf_counter()
        work = asyncio.gather(*(self.connection() for _ in range(connections)))
        if self.left is None:
            await asyncio.to_thread(sys.stdin.buffer.readline)
            self.stopped = True
        await work
        return time.perf_counter() - started


def main() -> None:
    port, task, kind, connections, requests = sys.argv[1:]
    body = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
    head = f"POST /tasks/{task}/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    generator = Generator(int(port), head.encode() + body, int(requests) or None)
    seconds = asyncio.run(generator.run(int(connections)))
    print(json.dumps({"seconds": seconds, "latencies": generator.latencies, "errors": generator.errors}))


if __name__ == "__main__":
    main()
