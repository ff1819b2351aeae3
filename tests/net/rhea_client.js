// What a stock client sees of the server: `node rhea_client.js PORT` prints one line of JSON.
// Needs rhea where Node finds it (npm install rhea, and NODE_PATH).
'use strict';

const rhea = require('rhea');

const once = (emitter, ...events) => new Promise((resolve) => {
    for (const event of events) {
        emitter.once(event, (context) => resolve({event, ...context}));
    }
});

async function main(port) {
    const results = {};
    const connection = rhea.connect(
        {host: '127.0.0.1', port, reconnect: false, username: 'ann', password: 'secret'});
    await once(connection, 'connection_open');

    async function open_sender(address) {
        const sender = connection.open_sender(address);
        await once(sender, 'sendable');
        return sender;
    }

    async function send(sender, message) {
        sender.send(message);
        return (await once(sender, 'accepted', 'rejected', 'released', 'modified')).event;
    }

    async function open_receiver(options) {
        const receiver = connection.open_receiver({credit_window: 0, autoaccept: false, ...options});
        await once(receiver, 'receiver_open');
        return receiver;
    }

    async function receive(receiver) {
        receiver.add_credit(1);
        return await once(receiver, 'message');
    }

    const sender = await open_sender('outcomes');
    results.sent = await send(sender, {body: 'x', message_id: 'm-1', application_properties: {n: 1}});

    // All five outcomes, one after the other, of one message.
    const receiver = await open_receiver({source: {address: 'outcomes'}});
    let {message, delivery} = await receive(receiver);
    results.message = [message.body, message.message_id, message.application_properties];
    results.first = [message.first_acquirer, message.delivery_count || 0];
    delivery.update(false, rhea.message.received({section_number: 1, section_offset: 0}).described());
    delivery.release();
    ({message, delivery} = await receive(receiver));
    results.released = [message.first_acquirer, message.delivery_count || 0];
    delivery.modified({delivery_failed: true, message_annotations: {'x-opt-why': 'busy'}});
    ({message, delivery} = await receive(receiver));
    results.modified = [message.delivery_count, message.message_annotations];
    delivery.reject({condition: 'amqp:not-allowed', description: 'no'});
    await send(sender, {body: 'y'});
    ({message, delivery} = await receive(receiver));
    results.after_rejected = message.body;
    delivery.accept();

    // A durable message, which this server does not keep.
    sender.send({body: 'z', durable: true});
    const refused = await once(sender, 'rejected');
    results.durable = refused.delivery.remote_state.error.condition;

    // The default-outcome, where a link goes away unsettled.
    await send(sender, {body: 'd'});
    const frail = await open_receiver({source: {
        address: 'outcomes',
        default_outcome: rhea.message.modified({delivery_failed: true}).described(),
    }});
    await receive(frail);
    frail.close();
    await once(frail, 'receiver_close');
    ({message, delivery} = await receive(receiver));
    results.default_outcome = [message.body, message.delivery_count];
    delivery.accept();

    // A selector.
    const colours = await open_sender('colours');
    for (const colour of ['red', 'green', 'blue', 'green']) {
        await send(colours, {body: colour, application_properties: {colour}});
    }
    const green = await open_receiver({
        source: {address: 'colours', filter: rhea.filter.selector("colour = 'green'")},
    });
    results.selected = [];
    for (let i = 0; i < 2; ++i) {
        ({message, delivery} = await receive(green));
        results.selected.push(message.body);
        delivery.accept();
    }

    // Drain: credit for more than there is comes back.
    green.add_credit(5);
    green.drain_credit();
    await once(green, 'receiver_drained');
    results.drained = green.credit;

    // Copy mode: everybody gets what is left.
    results.copied = [];
    for (let i = 0; i < 2; ++i) {
        const browser = await open_receiver({
            name: `browser-${i}`, source: {address: 'colours', distribution_mode: 'copy'},
        });
        for (let j = 0; j < 2; ++j) {
            ({message, delivery} = await receive(browser));
            results.copied.push(message.body);
            delivery.accept();
        }
    }

    // A dynamic node.
    const replies = await open_receiver({name: 'replies', source: {dynamic: true}});
    const address = replies.source.address;
    results.dynamic = address;
    await send(await open_sender(address), {body: 'reply'});
    ({message, delivery} = await receive(replies));
    results.reply = message.body;
    delivery.accept();

    // A topic: both subscribers get the message, and what is no topic is not said to be one.
    const source = {address: 'news', capabilities: ['topic']};
    const subscribers = [await open_receiver({name: 'one', source}),
        await open_receiver({name: 'two', source})];
    await send(await open_sender('news'), {body: 'flash'});
    results.topic = subscribers.map((subscriber) => subscriber.source.capabilities);
    for (const subscriber of subscribers) {
        ({message, delivery} = await receive(subscriber));
        results.topic.push(message.body);
        delivery.accept();
    }
    const plain = await open_receiver({source: {address: 'large', capabilities: ['unheard-of']}});
    results.unknown_capability = plain.source.capabilities ?? null;
    plain.close();

    // One mebibyte, of bytes.
    const large = Buffer.alloc(1 << 20, 'x');
    results.large_sent = await send(
        await open_sender('large'), {body: rhea.message.data_section(large)});
    ({message, delivery} = await receive(await open_receiver({source: {address: 'large'}})));
    results.large = large.equals(message.body.content);
    delivery.accept();

    // Too long.
    const too_long = await open_sender('large');
    too_long.send({body: rhea.message.data_section(Buffer.alloc(1 << 22, 'x'))});
    const closed = await once(too_long, 'sender_error');
    results.too_long = closed.sender.error.condition;

    connection.close();
    await once(connection, 'connection_close');
    return results;
}

main(Number(process.argv[2])).then(
    (results) => console.log(JSON.stringify(results)),
    (error) => { console.error(error); process.exit(1); },
);
