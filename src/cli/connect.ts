/**
 * Creates the client of a command: one that only reads, or one that signs with the trader's key. The key comes from a
 * file or the environment, never from an argument, and is never printed.
 */

import { readFileSync } from 'node:fs'
import { type Client, type ClientOptions, createClient } from '#client/client.ts'
import { delegateSigner } from '#client/delegate-signer.ts'
import { signerAddress } from '#client/sign-order.ts'
import { withApiKey } from '#client/tokens.ts'
import { ACCOUNTS, DEVNET_CHAIN_ID, devnetKey } from '#devnet/accounts.ts'
import { CommandError, OptionError, readInteger } from '#devnet/command.ts'
import { parseAddress } from '#domain/ids.ts'
import { trimEnd } from '#domain/trim-end.ts'
import type { ChainConfig } from '#protocol/shapes/config.ts'
import type { CommandIo } from './command.ts'
import { openKeyFolder } from './key-folder.ts'

type Hex = `0x${string}`

type SignValues = {
  readonly url: string | undefined
  readonly 'key-file': string | undefined
  readonly account: string | undefined
  readonly for?: string | undefined
  readonly 'chain-id': string | undefined
}

type Trader = {
  readonly url: string
  readonly client: Client
  readonly signer: Hex
  readonly address: string
  /** True if `client` authenticates with a stored API key of the signer. */
  readonly hasToken: boolean
}

const URL_DEFAULT = 'http://127.0.0.1:8080'
const KEY = /^0x[0-9a-fA-F]{64}$/
const CHAIN_ID_MAX = 2 ** 32
/** Number of retries; low, so that an unreachable server is reported quickly. */
const RETRIES = 1

export function urlOf({ url }: { readonly url: string | undefined }, { env }: CommandIo): string {
  const text = url ?? env.SIBYL_URL ?? URL_DEFAULT
  const parsed = URL.canParse(text) ? new URL(text) : undefined
  if (parsed?.protocol === 'http:' || parsed?.protocol === 'https:') return trimEnd(text, '/')
  throw new OptionError(`--url must be like ${URL_DEFAULT}, not '${text}'`)
}

/** Creates a client that only reads, without a signer. */
export function readerOf(values: { readonly url: string | undefined }, io: CommandIo): Client {
  return createClient({ url: urlOf(values, io), retries: RETRIES })
}

/** Returns the chain on which a command creates a market or an event, and the RPC address of that chain. */
export async function chainFor(
  client: Client,
  values: { readonly 'chain-id': string | undefined; readonly rpc: string | undefined },
): Promise<{ chain: ChainConfig; rpcUrl: string }> {
  const { chains } = await client.config()
  const wanted = values['chain-id']
  const found = chains.filter(({ chainId }) => wanted === undefined || `${chainId}` === wanted)
  const [chain] = found
  if (found.length !== 1 || chain === undefined) {
    throw new CommandError(
      `--chain-id must be one of ${chains.map(({ chainId }) => chainId).join(', ')}`,
    )
  }
  const rpcUrl = values.rpc ?? chain.rpcUrl
  if (rpcUrl === undefined && chain.chainId !== DEVNET_CHAIN_ID) {
    throw new CommandError(`--rpc is required: chain ${chain.chainId} is not a devnet`)
  }
  return { chain, rpcUrl: rpcUrl ?? '' }
}

/** Creates a client with the trader's signer but without an API key, for commands that only read. */
export async function traderReading(values: SignValues, io: CommandIo): Promise<Trader> {
  return (await identify(values, io)).trader
}

/**
 * Creates a client that writes as the trader. Uses the signer's stored API key, if there is one. Throws if the exchange
 * requires an API key and none is stored.
 */
export async function traderOf(values: SignValues, io: CommandIo): Promise<Trader> {
  const { trader, options, needsToken, nowMs } = await identify(values, io)
  const kept = openKeyFolder(io).find(trader.url, await signerAddress(trader.signer))
  if (kept !== undefined) {
    const client = createClient(withApiKey(options, kept, { nowMs }))
    return { ...trader, client, hasToken: true }
  }
  if (!needsToken) return trader
  throw new CommandError(
    'this exchange requires an API key for orders: create one with sibyl keys create',
  )
}

async function identify(
  values: SignValues,
  io: CommandIo,
): Promise<{
  trader: Trader
  options: ClientOptions
  needsToken: boolean
  nowMs: () => number
}> {
  const url = urlOf(values, io)
  const { auth, chains, serverTime } = await createClient({ url, retries: RETRIES }).config()
  const onDevnet = chains.some(({ chainId }) => chainId === DEVNET_CHAIN_ID)
  const signer = keyOf(values, io, onDevnet)
  const account = accountOf(values)
  const options = {
    ...{ url, retries: RETRIES, ...chainOf(values) },
    signer: account === undefined ? signer : delegateSigner(account, signer),
  }
  const client = createClient(options)
  const address = account ?? (await signerAddress(signer))
  const nowMs = clockOf(serverTime)
  const trader = { url, client, signer, address, hasToken: false }
  return { trader, options, needsToken: auth.bearer, nowMs }
}

/** Returns a clock that follows the exchange's time, because the time of a devnet can be moved. */
export function clockOf(serverTime: number): () => number {
  const aheadMs = serverTime * 1_000 - Date.now()
  return () => Date.now() + aheadMs
}

/** Returns whether the command line names a trader; ignores the environment. */
export function isTraderNamed(values: SignValues): boolean {
  return values['key-file'] !== undefined || values.account !== undefined
}

/** Returns the trader's key: from `--key-file`, else the devnet account of `--account`, else the environment. */
export function keyOf(values: SignValues, { env }: CommandIo, onDevnet: boolean): Hex {
  const { 'key-file': file, account } = values
  if (file !== undefined && account !== undefined) {
    throw new OptionError('give --key-file or --account, not both')
  }
  if (file !== undefined) return readKeyFile('--key-file', file)
  if (account !== undefined) {
    const index = readInteger('account', account, 0, ACCOUNTS - 1)
    if (onDevnet) return devnetKey(index)
    throw new CommandError('--account needs a local chain, which this exchange does not have')
  }
  const named = env.SIBYL_TRADER_KEY ?? ''
  if (KEY.test(named)) return named as Hex
  if (named !== '') return readKeyFile('SIBYL_TRADER_KEY', named)
  const devnetHint = onDevnet ? '; on this local chain, you can also give --account 10' : ''
  throw new OptionError(
    `the key of the trader is missing: give --key-file or SIBYL_TRADER_KEY${devnetHint}`,
  )
}

/**
 * Reads a private key from a file. An invalid file's content is not printed, because it may be a real key with a typo.
 */
export function readKeyFile(name: string, file: string): Hex {
  let text: string
  try {
    text = readFileSync(file, 'utf8').trim()
  } catch {
    const shown = /^[0-9a-fA-Fx]{32,}$/.test(file) ? 'the given text' : file
    throw new CommandError(`${name}: ${shown} cannot be read as a file`)
  }
  if (KEY.test(text)) return text as Hex
  throw new CommandError(`${name}: ${file} does not contain a private key (0x and 64 hex digits)`)
}

/** Returns the account of the option `--for`; undefined if the option is not given. Throws if it is not an address. */
function accountOf({ for: text }: SignValues): string | undefined {
  if (text === undefined || parseAddress(text) !== undefined) return text
  throw new OptionError(`--for must be an address, 0x and 40 hex digits, not '${text}'`)
}

function chainOf({ 'chain-id': text }: SignValues): { chainId?: number } {
  return text === undefined ? {} : { chainId: readInteger('chain-id', text, 1, CHAIN_ID_MAX) }
}
