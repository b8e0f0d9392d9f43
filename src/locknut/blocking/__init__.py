"""The blocking face, whose names `locknut` gives; the asyncio face is in `locknut.aio`."""
