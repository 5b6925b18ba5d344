"""Runs resync-simulator, which is of a time when random.sample took a view of keys.

Usage: run_simulator.py PATH-of-resync-simulator arguments...
"""
import random
import runpy
import sys

sample = random.sample
random.sample = lambda population, k, **more: sample(sorted(population), k, **more)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
