// When a response is over: sent, or its connection is gone. A response whose turn on its connection has not come does not
// hear that the connection is closed, so both are listened to.
import type { ServerResponse } from 'node:http';

/** Called once. */
export function onResponseEnd(response: ServerResponse, onOver: () => void): void {
  const { socket } = response.req;
  const over = () => {
    response.off('close', over);
    socket.off('close', over);
    onOver();
  };
  response.once('close', over);
  socket.once('close', over);
}
