"""Sends queries with httpx for some seconds: the program of the suite `forms`. Its argument and its output are JSON."""

import asyncio
import json
import random
import sys
import time

import httpx

load = json.loads(sys.argv[1])
took = []


async def ask(client, until):
    while time.perf_counter() < until:
        body = load["before"] + str(random.randint(1, load["highestId"])) + load["after"]
        began = time.perf_counter()
        response = await client.post(load["url"], headers=load["headers"], content=body)
        response.raise_for_status()
        if len(response.json()["rows"]) != 1:
            raise ValueError(response.text)
        took.append((time.perf_counter() - began) * 1000)


async def main():
    count = load["connections"]
    limits = httpx.Limits(max_connections=count, max_keepalive_connections=count)
    async with httpx.AsyncClient(limits=limits, timeout=30) as client:
        began = time.perf_counter()
        await asyncio.gather(*(ask(client, began + load["seconds"]) for _ in range(count)))
        return time.perf_counter() - began


seconds = asyncio.run(main())
print(json.dumps({"seconds": seconds, "took": took}))
