// The content type of almost every response.
export const json = 'application/json; charset=utf-8';
