"""The checked space: kernels run as plain Python, which is what a kernel means.

Everything here is pure Python and slow. The other spaces are right when they agree with this one.
"""
