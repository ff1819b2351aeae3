// Makes the calls of Azure's client for Node, and writes what becomes of each as JSON.

"use strict";

const { ServiceBusClient } = require("@azure/service-bus");

const [, , port] = process.argv;
const outcomes = {};
const soon = { maxWaitTimeInMs: 1000 };
const is = (found, wanted) => {
  const [one, other] = [found, wanted].map((value) => JSON.stringify(value));
  if (one !== other) throw new Error(`${one}, not ${other}`);
};
const call = async (name, make) => {
  const late = new Promise((_, fail) => setTimeout(() => fail(new Error("no answer")), 8000).unref());
  try {
    await Promise.race([make(), late]);
    outcomes[name] = "yes";
  } catch (error) {
    outcomes[name] = /does not implement the operation/.test(error.message) ? "501" : `${error.message}`;
  }
};

(async () => {
  const endpoint = `Endpoint=sb://127.0.0.1:${port};SharedAccessKeyName=all;SharedAccessKey=c2VjcmV0`;
  const client = new ServiceBusClient(`${endpoint};UseDevelopmentEmulator=true;`, {
    retryOptions: { maxRetries: 0, timeoutInMs: 8000 },
  });
  const sender = client.createSender("orders");
  const receiver = client.createReceiver("orders");
  const letters = client.createReceiver("orders", { subQueueType: "deadLetter" });
  const body = (message) => message.body;
  let got = [];
  let number;
  let session;
  await call("send a message", () => sender.sendMessages({ body: "a" }));
  await call("send several", () => sender.sendMessages([{ body: "b" }, { body: "c" }]));
  await call("send a batch", async () => {
    const batch = await sender.createMessageBatch();
    batch.tryAddMessage({ body: "d" });
    await sender.sendMessages(batch);
  });
  await call("peek", async () => is((await receiver.peekMessages(9)).map(body), ["a", "b", "c", "d"]));
  await call("receive", async () => {
    got = await receiver.receiveMessages(4, soon);
    is(got.map(body), ["a", "b", "c", "d"]);
  });
  await call("renew a lock", () => receiver.renewMessageLock(got[0]));
  await call("complete", () => receiver.completeMessage(got[0]));
  await call("abandon", async () => {
    await receiver.abandonMessage(got[1]);
    const [again] = await receiver.receiveMessages(1, soon);
    is([again.body, again.deliveryCount], ["b", 1]);
    await receiver.completeMessage(again);
  });
  await call("defer", () => receiver.deferMessage(got[2]));
  await call("receive deferred", async () => {
    const [deferred] = await receiver.receiveDeferredMessages(got[2].sequenceNumber);
    is(deferred.body, "c");
    await receiver.completeMessage(deferred);
  });
  await call("dead-letter", () =>
    receiver.deadLetterMessage(got[3], { deadLetterReason: "bad", deadLetterErrorDescription: "worse" }));
  await call("receive dead letters", async () => {
    const [letter] = await letters.receiveMessages(1, soon);
    is([letter.body, letter.deadLetterReason, letter.deadLetterErrorDescription], ["d", "bad", "worse"]);
  });
  await call("schedule", async () => {
    [number] = await sender.scheduleMessages([{ body: "later" }], new Date(Date.now() + 3600e3));
    is((await receiver.peekMessages(9, { fromSequenceNumber: number })).map(body), ["later"]);
  });
  await call("cancel what is scheduled", () => sender.cancelScheduledMessages(number));
  await call("receive and delete", async () => {
    await sender.sendMessages({ body: "gone" });
    const taker = client.createReceiver("orders", { receiveMode: "receiveAndDelete" });
    is((await taker.receiveMessages(1, soon)).map(body), ["gone"]);
    await taker.close();
  });
  await call("receive a session", async () => {
    await sender.sendMessages([{ body: "s", sessionId: "one" }, { body: "t", sessionId: "two" }]);
    session = await client.acceptSession("orders", "two");
    is((await session.receiveMessages(1, soon)).map(body), ["t"]);
  });
  await call("keep the state of a session", async () => {
    await session.setSessionState("half");
    is(String(await session.getSessionState()), "half");
  });
  await call("renew the lock of a session", () => session.renewSessionLock());
  await call("receive the next session", async () => {
    is((await client.acceptNextSession("orders")).sessionId, "one");
  });
  await call("receive from a subscription", async () => {
    await client.createSender("news").sendMessages({ body: "n" });
    is((await client.createReceiver("news", "ann").receiveMessages(1, soon)).map(body), ["n"]);
  });
  await call("list the rules of a subscription", async () => {
    for await (const rule of client.createRuleManager("news", "ann").listRules()) is(rule, null);
  });
  process.stdout.write(JSON.stringify(outcomes), () => process.exit(0));
})();
