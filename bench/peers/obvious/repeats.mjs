// Answers a repeated request with the answer of the first one: the key is inserted in the transaction of the work, and the answer
// is stored with it. A repeat that comes meanwhile waits for the key. Bodies are not compared, and keys never expire.

export async function once(pool, key, run) {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const { rowCount } = await client.query('insert into requests (key) values ($1) on conflict do nothing', [
      key,
    ]);
    const answer = rowCount === 0 ? await stored(client, key) : await run(client);
    if (rowCount === 1) await client.query('update requests set answer = $2 where key = $1', [key, answer]);
    await client.query('commit');
    return answer;
  } catch (error) {
    await client.query('rollback');
    throw error;
  } finally {
    client.release();
  }
}

async function stored(client, key) {
  const { rows } = await client.query('select answer from requests where key = $1', [key]);
  return rows[0].answer;
}
