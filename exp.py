"""time compile of sources under variants: exp.py level n"""
