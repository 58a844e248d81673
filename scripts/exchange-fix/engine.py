"""A participant of the exchange, as an engine that knows nothing of it: QuickFIX with its files.

    engine.py trade PARTICIPANT PORT FOLDER SIDE COUNT   sends so many orders of one lot, until it is killed
    engine.py check PARTICIPANT PORT FOLDER              waits until nothing comes any more

What it sends and hears is a line each in FOLDER/heard, which outlives it.
"""

import os
import sys
import time

import quickfix as fix

# How long nothing may come before it is taken for all that comes, in seconds.
QUIET = 3.0

SETTINGS = """[DEFAULT]
ConnectionType=initiator
SocketConnectHost=127.0.0.1
SocketConnectPort={port}
HeartBtInt=5
ReconnectInterval=1
StartTime=00:00:00
EndTime=00:00:00
FileStorePath={folder}/store
UseDataDictionary=N
[SESSION]
BeginString=FIX.4.4
SenderCompID={participant}
TargetCompID=EXCHANGE
"""


class Engine(fix.Application):
    def __init__(self, folder):
        super().__init__()
        self.heard = open(os.path.join(folder, "heard"), "a", buffering=1)
        self.last = time.monotonic()
        self.logons = 0

    def note(self, what, message):
        self.last = time.monotonic()
        self.heard.write(f"{what} {message.toString()}\n".replace("\x01", "|"))

    def onCreate(self, session):
        pass

    def onLogon(self, session):
        self.logons += 1
        self.last = time.monotonic()

    def onLogout(self, session):
        pass

    def toAdmin(self, message, session):
        if message.getHeader().getField(35) == "2":
            self.note("asks", message)

    def fromAdmin(self, message, session):
        kind = message.getHeader().getField(35)
        if kind == "2":
            self.note("asked", message)
        # A log-out is answered by one without a text.
        if kind == "3" or (kind == "5" and message.isSetField(58)):
            self.note("refused", message)

    def toApp(self, message, session):
        again = message.getHeader().isSetField(43)
        self.note("again" if again else "order", message)

    def fromApp(self, message, session):
        self.note("report", message)


def order(number, side):
    order = fix.Message()
    order.getHeader().setField(35, "D")
    now = time.strftime("%Y%m%d-%H:%M:%S", time.gmtime())
    fields = {11: number, 38: 1, 40: 2, 44: 100, 54: side, 55: 0, 59: 1, 60: now}
    for tag, value in fields.items():
        order.setField(tag, str(value))
    return order


def main():
    command, participant, port, folder = sys.argv[1:5]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "settings")
    with open(path, "w") as settings:
        settings.write(SETTINGS.format(participant=participant, port=port, folder=folder))
    settings = fix.SessionSettings(path)
    engine = Engine(folder)
    store, log = fix.FileStoreFactory(settings), fix.ScreenLogFactory(False, False, False)
    initiator = fix.SocketInitiator(engine, store, settings, log)
    initiator.start()
    session = fix.SessionID("FIX.4.4", participant, "EXCHANGE")
    if command == "trade":
        side, count = sys.argv[5], int(sys.argv[6])
        last = 0
        for _ in range(count):
            # Numbers rise, whatever was killed in between.
            last = max(last + 1, time.time_ns() // 1000)
            fix.Session.sendToTarget(order(last, side), session)
            time.sleep(0.01)
    while engine.logons == 0 or time.monotonic() - engine.last < QUIET:
        time.sleep(0.1)
    initiator.stop()


main()
