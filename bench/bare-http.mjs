// Node's HTTP server alone, without a database: reads the body of a request and sends the bytes that were put before. What it
// reaches is the upper limit of a program that uses node:http. Rowhouse bypasses it for ordinary requests.
import { createServer } from 'node:http';

let answer = Buffer.alloc(0);
const server = createServer((request, response) => {
  const pieces = [];
  request.on('data', (piece) => pieces.push(piece));
  request.on('end', () => {
    if (request.method === 'PUT') answer = Buffer.concat(pieces);
    const body = request.method === 'PUT' ? Buffer.alloc(0) : answer;
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': String(body.length) });
    response.end(body);
  });
});
server.listen(Number(process.env.PORT), '127.0.0.1', () => console.log('ready'));
process.on('SIGTERM', () => process.exit(0));
