class Report:
    def __init__(self, p): pass
    def add(self, i, f): pass
