// The calls of rhea, and what becomes of each, as JSON: see test_serve_clients.py.
'use strict';

const assert = require('assert');
const fs = require('fs');
const rhea = require('rhea');

const given = JSON.parse(process.argv[2]);
const found = {};

async function call(name, make) {
    try {
        await make();
        found[name] = 'yes';
    } catch (error) {
        const words = `${error.condition} ${error.name}: ${error.message} ${error.description}`;
        found[name] = (words.match(/(?:amqp|com\.microsoft):[a-z]+(?:[:-][a-z]+)*/) || [words])[0];
    }
}

// What is there comes at once; an error of the endpoint is thrown.
function once(emitter, ...events) {
    emitter.setMaxListeners(0);
    return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`no ${events}`)), 10000);
        const done = (end) => (value) => { clearTimeout(timer); end(value); };
        for (const event of events) {
            emitter.once(event, done((context) => resolve({event, ...context})));
        }
        for (const kind of ['sender', 'receiver']) {
            emitter.once(`${kind}_error`, done((context) => reject(context[kind].error)));
        }
        for (const fault of ['connection_error', 'disconnected', 'error']) {
            if (!events.includes(fault)) {
                emitter.once(fault, done((context) => reject(context.error || context)));
            }
        }
    });
}

async function connect(end, options) {
    const url = new URL(given[end]);
    const made = rhea.create_container().connect(
        {host: url.hostname, port: Number(url.port), reconnect: false, ...options});
    await once(made, 'connection_open');
    return made;
}

async function login(end, options) {
    const made = await connect(end, options);
    made.close();
    await once(made, 'connection_close');
}

let connection;

async function open_sender(options, from = connection) {
    const sender = from.open_sender(options);
    await once(sender, 'sendable');
    return sender;
}

async function send(address, ...messages) {
    const sender = await open_sender(address);
    for (const message of messages) {
        sender.send(message);
        const {event, delivery} = await once(sender, 'accepted', 'rejected');
        if (event === 'rejected') {
            throw delivery.remote_state.error;
        }
    }
    sender.close();
}

async function open_receiver(source, options = {}, from = connection) {
    const receiver = from.open_receiver(
        {source, credit_window: 0, autoaccept: false, ...options});
    await once(receiver, 'receiver_open');
    return receiver;
}

async function receive(receiver) {
    receiver.add_credit(1);
    return await once(receiver, 'message');
}

async function bodies(receiver, count) {
    const bodies = [];
    for (let i = 0; i < count; ++i) {
        const {message, delivery} = await receive(receiver);
        bodies.push(message.body);
        delivery.accept();
    }
    return bodies;
}

async function after(address, outcome) {
    await send(address, {body: 'a'});
    const receiver = await open_receiver({address});
    outcome((await receive(receiver)).delivery);
    receiver.close();
    await send(address, {body: 'b'});
    return (await receive(await open_receiver({address}))).message;
}

async function logins() {
    const as_ann = {username: 'ann', password: 'secret'};
    const ca = fs.readFileSync(given.ca);
    const mine = fs.readFileSync(given.mine);
    await call('SASL ANONYMOUS', () => login('plain', {username: 'any'}));
    await call('SASL PLAIN', () => login('plain', as_ann));
    await call('a wrong password is refused', () => assert.rejects(
        login('plain', {...as_ann, password: 'wrong'}), /Failed to authenticate/));
    await call('TLS', () => login('tls', {transport: 'tls', ca, ...as_ann}));
    await call('SASL EXTERNAL', () => login(
        'tls', {transport: 'tls', ca, cert: mine, key: mine, enable_sasl_external: true}));
}

async function sending() {
    await call('send', () => send('sent', {body: 'a'}));
    await call('send several, then hear of all', async () => {
        const sender = await open_sender('several');
        let accepted = 0;
        sender.on('accepted', () => { ++accepted; });
        for (let i = 0; i < 20; ++i) {
            sender.send({body: i});
        }
        while (accepted < 20) {
            await once(sender, 'accepted');
        }
        assert.deepStrictEqual(
            await bodies(await open_receiver('several'), 20), [...Array(20).keys()]);
    });
    await call('send settled', async () => {
        const sender = await open_sender({target: 'settled', snd_settle_mode: 1});
        for (let i = 0; i < 3; ++i) {
            sender.send({body: i});
        }
        assert.deepStrictEqual(await bodies(await open_receiver('settled'), 3), [0, 1, 2]);
    });
    const data = (size) => ({body: rhea.message.data_section(Buffer.alloc(size, 'x'))});
    await call('send 1 MiB', async () => {
        await send('large', data(1 << 20));
        const {message} = await receive(await open_receiver('large'));
        assert(message.body.content.equals(Buffer.alloc(1 << 20, 'x')));
    });
    await call('send more than `max_message_size`', () => send('long', data(5 << 20)));
    await call('send a durable message', () => send('durable', {body: 'a', durable: true}));
    await call('send to the anonymous terminus', async () => {
        await send({target: {}}, {to: 'addressed', body: 'a'});
        assert.deepStrictEqual(await bodies(await open_receiver('addressed'), 1), ['a']);
    });
}

async function receiving() {
    await call('receive as many as there is credit', async () => {
        await send('credit', ...[0, 1, 2, 3, 4].map((body) => ({body})));
        const receiver = await open_receiver('credit');
        const got = [];
        receiver.on('message', ({message}) => got.push(message.body));
        receiver.add_credit(2);
        while (got.length < 2) {
            await once(receiver, 'message');
        }
        await send('credit', {body: 5});  // its answer comes after what else would come
        assert.deepStrictEqual(got, [0, 1]);
        receiver.close();
    });
    await call('drain', async () => {
        await send('drained', {body: 'a'});
        const receiver = await open_receiver('drained');
        const got = [];
        receiver.on('message', ({message}) => got.push(message.body));
        receiver.add_credit(5);
        receiver.drain_credit();
        await once(receiver, 'receiver_drained');
        assert.deepStrictEqual([got, receiver.credit], [['a'], 0]);
    });
    await call('receive settled', async () => {
        await send('taken', {body: 'a'});
        const receiver = await open_receiver('taken', {snd_settle_mode: 1});
        await receive(receiver);
        receiver.close();
        await send('taken', {body: 'b'});
        assert.deepStrictEqual(await bodies(await open_receiver('taken'), 1), ['b']);
    });
    await call('settle second', async () => {
        await send('second', {body: 'a'});
        const receiver = await open_receiver('second', {rcv_settle_mode: 1, autosettle: false});
        assert.strictEqual(receiver.rcv_settle_mode, 1);
        const {delivery} = await receive(receiver);
        delivery.update(false, rhea.message.accepted().described());
        await once(receiver, 'settled');
        assert(delivery.remote_settled);
    });
    await call('accept', async () => {
        assert.strictEqual((await after('accept', (it) => it.accept())).body, 'b');
    });
    await call('release', async () => {
        const {body, delivery_count} = await after('release', (it) => it.release());
        assert.deepStrictEqual([body, delivery_count || 0], ['a', 0]);
    });
    await call('modify, with annotations', async () => {
        const {body, delivery_count, message_annotations} = await after('modify', (it) =>
            it.modified({delivery_failed: true, message_annotations: {'x-opt-why': 'busy'}}));
        assert.deepStrictEqual(
            [body, delivery_count, message_annotations], ['a', 1, {'x-opt-why': 'busy'}]);
    });
    await call('reject', async () => {
        assert.strictEqual((await after('reject', (it) => it.reject())).body, 'b');
    });
    await call('receive dead letters, with the reason', async () => {
        const dead = await open_receiver('dead');
        await bodies(dead, 1);
        await after('dying', (it) => it.reject({condition: 'app:bad', description: 'worse'}));
        const annotations = (await receive(dead)).message.message_annotations;
        const [death] = annotations['x-opt-deaths'];
        assert.deepStrictEqual(
            [death.reason, death.count, death.queue], ['rejected', 1, 'dying']);
        assert.deepStrictEqual(
            [annotations['x-opt-death-condition'], annotations['x-opt-death-description']],
            ['app:bad', 'worse']);
    });
}

async function links() {
    const only = (text) => ({address: 'colours', filter: rhea.filter.selector(text)});
    await call('a selector', async () => {
        const colours = ['red', 'green'];
        await send('colours', ...colours.map(
            (colour) => ({body: colour, application_properties: {colour}})));
        assert.deepStrictEqual(
            await bodies(await open_receiver(only("colour = 'green'")), 1), ['green']);
    });
    await call('a selector that is wrong', async () => {
        await once(connection.open_receiver({source: only('a = (')}), 'receiver_close');
    });
    await call('browse', async () => {
        await send('browsed', {body: 'a'}, {body: 'b'});
        for (let i = 0; i < 2; ++i) {
            const browser = await open_receiver({address: 'browsed', distribution_mode: 'copy'});
            assert.deepStrictEqual(await bodies(browser, 2), ['a', 'b']);
        }
    });
    await call('a dynamic node', async () => {
        const receiver = await open_receiver({dynamic: true});
        await send(receiver.source.address, {body: 'a'});
        assert.deepStrictEqual(await bodies(receiver, 1), ['a']);
    });
    await call('a topic', async () => {
        const readers = [await open_receiver('news'), await open_receiver('news')];
        await send('news', {body: 'a'});
        for (const reader of readers) {
            assert.deepStrictEqual(await bodies(reader, 1), ['a']);
        }
    });
    await call('go on with a durable subscription', async () => {
        const source = {address: 'news', durable: 2, expiry_policy: 'never'};
        const first = await connect('plain', {container_id: 'me'});
        await open_receiver(source, {name: 'kept'}, first);
        first.close();
        await once(first, 'connection_close');
        await send('news', {body: 'while it was away'});
        const again = await connect('plain', {container_id: 'me'});
        assert.deepStrictEqual(
            await bodies(await open_receiver(source, {name: 'kept'}, again), 1),
            ['while it was away']);
        again.close();
    });
    await call('get again what a lost connection held', async () => {
        await send('lost', {body: 'a'});
        const other = await connect('plain');
        await receive(await open_receiver('lost', {}, other));
        other.socket.destroy();
        assert.deepStrictEqual(await bodies(await open_receiver('lost'), 1), ['a']);
    });
}

async function main() {
    connection = await connect('plain', {username: 'ann', password: 'secret'});
    for (const part of [logins, sending, receiving, links]) {
        await part();
    }
    console.log(`\n${JSON.stringify(found)}`);
    process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
