"""A zoo that answers other programs: predictions over HTTP, a page that shows what it knows, and learning if that is allowed.

Requests are read and checked on the event loop (`app`, `guard`, `rows`), gathered into common model calls (`batching`) that
one thread carries out on the newest state of the folder (`live_zoo`). Learning is another process (`training`, `learner`).
Needs the extra `serve`.
"""
