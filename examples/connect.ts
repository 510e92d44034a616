/**
 * What the examples share: where the exchange is and who trades. This file alone says where the SDK is:
 * here in the repository; elsewhere, the package.
 */

import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { registerApiKey } from '#client/api-keys.ts'
import { type Client, type ClientOptions, createClient } from '#client/client.ts'
import { withApiKey } from '#client/tokens.ts'
import { devnetKey } from '#devnet/accounts.ts'

export const url = process.env.SIBYL_URL ?? 'http://127.0.0.1:8080'

/** Any signer: a private key, a viem account, or an object with `address` and `signTypedData`. */
export function connect(signer: NonNullable<ClientOptions['signer']>): Client {
  return createClient({ url, signer })
}

/** One of the devnet's traders, #10 to #19: they have dollars, shares and ether. */
export function demoTrader(account: number): Client {
  return connect(devnetKey(account))
}

/** One that has an API key too, as cancel-on-disconnect and many exchanges ask for. */
export async function demoTraderWithKey(account: number): Promise<Client> {
  const signer = devnetKey(account)
  const key = await registerApiKey({ url }, signer, { name: 'example' }) // keep it: shown once
  // Tokens are dated by the exchange's clock, which on a devnet may have been moved.
  const { serverTime } = await createClient({ url }).config()
  const aheadMs = serverTime * 1_000 - Date.now()
  return createClient(withApiKey({ url, signer }, key, { nowMs: () => Date.now() + aheadMs }))
}

/** What `npx sibyl …` prints, read as JSON. */
export function sibyl<Answer>(...args: string[]): Answer {
  const entry = fileURLToPath(new URL('../src/cli/sibyl.js', import.meta.url))
  const line = [entry, ...args, '--url', url, '--json']
  return JSON.parse(execFileSync(process.execPath, line, { encoding: 'utf8' })) as Answer
}
