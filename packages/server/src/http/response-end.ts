// Detects the end of a response: it was sent, or its connection closed. A response that is queued behind another one on
// its connection gets no event when the connection closes, so this listens to both.
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
