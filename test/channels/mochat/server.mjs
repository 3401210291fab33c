// A real Socket.IO server that speaks the protocol of Mochat's agents. Arguments:
// "json" or "msgpack", and the token. Prints its port, then a line of JSON for
// each thing that it was told. Each line of its input is an event to send, or
// "cut" to end the connections.
import { createServer } from "node:http";
import readline from "node:readline";
import { Server } from "socket.io";
import parser from "socket.io-msgpack-parser";

const [encoding, token] = process.argv.slice(2);
const print = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const http = createServer();
const io = new Server(http, { ...(encoding === "msgpack" ? { parser } : {}), pingInterval: 300, pingTimeout: 20000 });

io.use((socket, next) => (socket.handshake.auth.token === token ? next() : next(new Error("invalid token"))));
io.on("connection", (socket) => {
  socket.conn.on("packet", ({ type }) => type === "pong" && print({ pong: true }));
  socket.on("com.claw.im.subscribeSessions", (body, ack) => {
    print({ sessions: body });
    const events = [{ seq: 1, type: "message.add", timestamp: new Date().toISOString(), payload: { messageId: "r1", author: "ann", content: "in the answer" } }];
    ack({ result: true, data: { sessions: body.sessionIds.map((sessionId) => ({ sessionId, cursor: 1, events })) } });
  });
  socket.on("com.claw.im.subscribePanels", (body, ack) => {
    print({ panels: body });
    ack({ result: true, data: new Date(0) });
  });
});
io.engine.on("connection_error", (err) => print({ refused: err.message }));

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  if (line === "cut") {
    io.disconnectSockets(true);
    return;
  }
  const { name, body } = JSON.parse(line);
  if (body.big) body.events[0].payload.content = "x".repeat(body.big);
  io.emit(name, body);
});
http.listen(0, "127.0.0.1", () => print({ port: http.address().port }));
