// The least that a Node.js program can do for Q1 in many databases: it reads a request from its socket, sends the parameter to a
// connection of that database on which the statement is prepared, and returns the bytes of the row. No HTTP parser, no keys,
// no limits, no JSON. What it takes for each request is the lower limit. SOCKET is the folder of PostgreSQL's socket,
// STATEMENT the statement with one parameter; USER and PASSWORD log in, and the database is part of the path.
import { createServer } from 'node:net';
import pg from 'pg';

const { SOCKET, DATABASE_PORT, DATABASE_USER, PASSWORD, STATEMENT, PORT } = process.env;

/** A message of PostgreSQL's protocol. */
function message(type, body) {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

const sync = message('S', Buffer.alloc(0));
const execute = message('E', Buffer.alloc(5));

function bind(parameter) {
  const text = Buffer.from(parameter);
  // No name of a portal, statement "q", no formats, one parameter with its length.
  const body = Buffer.concat([Buffer.from('\0q\0\0\0\0\x01\0\0\0\0'), text, Buffer.from('\0\0')]);
  body.writeInt32BE(text.length, 7);
  return Buffer.concat([message('B', body), execute, sync]);
}

/** The driver logs in; after that its socket is read and written here. */
async function openConnection(database) {
  const client = new pg.Client({
    host: SOCKET,
    port: Number(DATABASE_PORT),
    user: DATABASE_USER,
    password: PASSWORD,
    database,
  });
  await client.connect();
  const { stream } = client.connection;
  stream.removeAllListeners('data');
  const waiting = [];
  let isPrepared = false;
  let rest = Buffer.alloc(0);
  let row = null;
  stream.on('data', (bytes) => {
    const all = rest.length > 0 ? Buffer.concat([rest, bytes]) : bytes;
    let at = 0;
    while (at + 5 <= all.length && at + 1 + all.readInt32BE(at + 1) <= all.length) {
      const end = at + 1 + all.readInt32BE(at + 1);
      const type = all[at];
      if (type === 0x45) throw new Error(all.toString('utf8', at, end));
      if (type === 0x44) row = all.subarray(at + 5, end);
      if (type === 0x5a && isPrepared) answer(waiting.shift(), row);
      if (type === 0x5a) isPrepared = true;
      at = end;
    }
    rest = all.subarray(at);
  });
  stream.write(Buffer.concat([message('P', Buffer.from(`q\0${STATEMENT}\0\0\0`)), sync]));
  return (parameter, socket) => {
    waiting.push(socket);
    stream.write(bind(parameter));
  };
}

function answer(socket, row) {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${row.length}\r\n\r\n`;
  const whole = Buffer.allocUnsafe(head.length + row.length);
  whole.latin1Write(head);
  row.copy(whole, head.length);
  socket.write(whole);
}

const connections = new Map();

createServer({ noDelay: true }, (socket) => {
  socket.on('error', () => {});
  // One request at a time, and in one piece: it comes from wrk.
  socket.on('data', (bytes) => {
    const text = bytes.latin1Slice();
    const database = text.slice(text.indexOf('/') + 1, text.indexOf('/query'));
    const parameter = text.slice(text.lastIndexOf('[') + 1, text.lastIndexOf(']'));
    const open = connections.get(database);
    if (typeof open === 'function') return open(parameter, socket);
    const opening = open ?? openConnection(database);
    connections.set(database, opening);
    opening.then((ask) => {
      connections.set(database, ask);
      ask(parameter, socket);
    });
  });
}).listen(Number(PORT), '127.0.0.1', () => console.log('ready'));
process.on('SIGTERM', () => process.exit(0));
