// Runs the WhatsApp bridge of Python nanobot 0.1.5, as it was published, with the
// real library. WhatsApp itself cannot be reached: every connection beyond this
// machine is refused. What WhatsApp would say is read as lines of JSON from the
// input and goes into the library's own stream of events; what the bridge wants
// to send is printed.
import dns from 'node:dns';
import {readFileSync, writeFileSync, mkdirSync} from 'node:fs';
import net from 'node:net';
import {join} from 'node:path';
import {createInterface} from 'node:readline';
import {pathToFileURL} from 'node:url';
import ts from 'typescript';

const [source, built] = process.argv.slice(2);
const say = (what) => process.stdout.write(`@${JSON.stringify(what)}\n`);

const lookup = dns.lookup;
dns.lookup = (host, options, callback) => {
    if (host === 'localhost' || host === '127.0.0.1') {
        return lookup(host, options, callback);
    }
    say({refused: host});
    if (host === 'web.whatsapp.com') {
        return; // no answer: the library goes on to connect, and its events to come from us
    }
    const done = callback ?? options;
    process.nextTick(() => done(Object.assign(new Error(`${host} is not on this machine`), {code: 'ENOTFOUND'})));
};
net.Socket.prototype.setTimeout = function () { return this; }; // it would give up after 20 s
const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...args) {
    const first = Array.isArray(args[0]) ? args[0][0] : args[0];
    if (net.isIP(first?.host ?? '') && first.host !== '127.0.0.1') {
        throw new Error(`${first.host} is not on this machine`);
    }
    return connect.apply(this, args);
};

mkdirSync(built, {recursive: true});
for (const name of ['index', 'server', 'whatsapp']) {
    const {outputText} = ts.transpileModule(readFileSync(join(source, `${name}.ts`), 'utf8'), {
        compilerOptions: {module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022},
    });
    writeFileSync(join(built, `${name}.js`), outputText);
}

const {WhatsAppClient} = await import(pathToFileURL(join(built, 'whatsapp.js')));
let current;
const begin = WhatsAppClient.prototype.connect;
WhatsAppClient.prototype.connect = async function () {
    await begin.call(this);
    current = this;
    const real = this.sock.sendMessage;
    this.sock.sendMessage = async (to, content) => {
        if (!to.includes('@')) {
            return real(to, content); // the library's own complaint
        }
        for (const [key, value] of Object.entries(content)) {
            content[key] = Buffer.isBuffer(value) ? value.toString() : value;
        }
        say({to, content});
    };
    say({begun: true});
};
const {BridgeServer} = await import(pathToFileURL(join(built, 'server.js')));
let server;
const serve = BridgeServer.prototype.start;
BridgeServer.prototype.start = function () {
    server = this;
    return serve.call(this);
};
createInterface({input: process.stdin}).on('line', (line) => {
    const {event, data} = JSON.parse(line);
    if (event === 'cut') {
        server.clients.forEach((c) => c.terminate());
        return;
    }
    current.sock.ev.emit(event, data);
}).on('close', () => process.exit(0));

console.log = console.error = console.warn = () => {}; // QR codes among others
await import(pathToFileURL(join(built, 'index.js')));
