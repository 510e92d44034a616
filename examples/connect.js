/** Helpers of all examples: the exchange's address, clients for its demo traders, and the command `sibyl`. */

import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { createClient, devnetKey, registerApiKey, withApiKey } from './sdk.js'

/** @typedef {import('#client/client.ts').Client} Client */

export const url = process.env.SIBYL_URL ?? 'http://127.0.0.1:8080'

/**
 * Returns a client of the exchange. The signer may be a private key, a viem account, or an object with
 * `address` and `signTypedData`.
 * @param {NonNullable<import('#client/client.ts').ClientOptions['signer']>} signer
 * @returns {Client}
 */
export function connect(signer) {
  return createClient({ url, signer })
}

/**
 * Returns a client of one of the devnet's traders, #10 to #19, who have dollars, shares and ether.
 * @param {number} account
 */
export function demoTrader(account) {
  return connect(devnetKey(account))
}

/**
 * Registers an API key for a demo trader and returns a client that uses it. Cancel-on-disconnect requires such a key.
 * An exchange with bearer tokens requires it for every write.
 * @param {number} account
 * @returns {Promise<Client>}
 */
export async function demoTraderWithKey(account) {
  const signer = devnetKey(account)
  const key = await registerApiKey({ url }, signer, { name: 'example' }) // keep it: shown once
  // Tokens must contain the time of the exchange's clock. On a devnet, this clock may be ahead of the machine's clock.
  const { serverTime } = await createClient({ url }).config()
  const aheadMs = serverTime * 1_000 - Date.now()
  return createClient(withApiKey({ url, signer }, key, { nowMs: () => Date.now() + aheadMs }))
}

/**
 * Returns the output of `npx sibyl …`, read as JSON.
 * @param {...string} args
 */
export function sibyl(...args) {
  const entry = fileURLToPath(new URL('../src/cli/sibyl.js', import.meta.url))
  const line = [entry, ...args, '--url', url, '--json']
  return JSON.parse(execFileSync(process.execPath, line, { encoding: 'utf8' }))
}
