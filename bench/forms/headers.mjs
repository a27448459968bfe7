// The headers that callers add on their own, recorded from each of them. wrk sets Host and Content-Length itself.

/** Node.js 20. Other versions send the same. */
export const nodeFetch = {
  connection: 'keep-alive',
  accept: '*/*',
  'accept-language': '*',
  'sec-fetch-mode': 'cors',
  'user-agent': 'node',
  'accept-encoding': 'gzip, deflate',
};

const origin = 'http://127.0.0.1:3000';

/** Chromium 156 on Linux, for a page of another origin. */
export const chromium = {
  Connection: 'keep-alive',
  'sec-ch-ua-platform': '"Linux"',
  'User-Agent':
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36',
  'sec-ch-ua': '"Not:A-Brand";v="8", "Chromium";v="156"',
  'sec-ch-ua-mobile': '?0',
  Accept: '*/*',
  Origin: origin,
  'Sec-Fetch-Site': 'same-site',
  'Sec-Fetch-Mode': 'cors',
  'Sec-Fetch-Dest': 'empty',
  Referer: `${origin}/`,
  'Accept-Encoding': 'gzip, deflate, br, zstd',
  'Accept-Language': 'en-US,en;q=0.9',
};

/** What Chromium asks before a page of another origin may read rows for a user. */
export const preflight = {
  Connection: 'keep-alive',
  Accept: '*/*',
  'Access-Control-Request-Method': 'GET',
  'Access-Control-Request-Headers': 'authorization,x-api-key',
  Origin: origin,
  'User-Agent': chromium['User-Agent'],
  'Sec-Fetch-Mode': 'cors',
  'Sec-Fetch-Site': 'same-site',
  'Sec-Fetch-Dest': 'empty',
  Referer: `${origin}/`,
  'Accept-Encoding': 'gzip, deflate, br, zstd',
  'Accept-Language': 'en-US,en;q=0.9',
};
