"""The commands of `sinkviz`, one module each: `add_arguments(parser)` is light, `run(options)` does the work.

Exit codes: 0 done; 1 done, but not all of it worked (a solve that did not converge, rows that could not be read);
2 wrong use, or input that cannot be used; 130 interrupted.
"""
