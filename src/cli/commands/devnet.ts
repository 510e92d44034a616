/**
 * `sibyl warp` moves the clock of a devnet, `sibyl market create` creates a market, and `sibyl maker` quotes in open
 * markets.
 */

import type { Config } from '#client/answers.ts'
import { registerApiKey } from '#client/api-keys.ts'
import { type Client, createClient } from '#client/client.ts'
import { signerAddress } from '#client/sign-order.ts'
import { withApiKey } from '#client/tokens.ts'
import { DEMO_MAKER, DEMO_TAKER, DEVNET_CHAIN_ID, devnetKey, MAKER } from '#devnet/accounts.ts'
import { CommandError, readInteger } from '#devnet/command.ts'
import { createMarket } from '#devnet/create-market.ts'
import { runMaker } from '#devnet/demo-maker.ts'
import { warpDevnet } from '#devnet/warp.ts'
import { CATEGORIES, MATCHINGS } from '#domain/market.ts'
import { command, READ_OPTIONS, readWord, SIGN_OPTIONS, URL_OPTION } from '../command.ts'
import {
  chainFor,
  clockOf,
  isTraderNamed,
  keyOf,
  readerOf,
  readKeyFile,
  urlOf,
} from '../connect.ts'
import { openKeyFolder } from '../key-folder.ts'
import { showFacts, showJson } from '../show.ts'

const YEAR_SEC = 31_536_000
const DAY_SEC = 86_400
const UNIT = 1_000_000
const CENT = 10_000

export const warp = command({
  name: 'warp',
  takes: '',
  about: 'moves the clocks of the local chain and of the exchange forward together',
  more: 'Markets and orders that are then due expire, and dispute windows end. Time cannot be moved back.',
  options: {
    seconds: { value: '<n>', help: 'number of seconds to move forward', required: true },
    ...READ_OPTIONS,
  },
  async run({ values, io }) {
    const seconds = readInteger('seconds', values.seconds, 1, YEAR_SEC)
    const chainSec = await warpDevnet(readerOf(values, io), seconds)
    const now = new Date(chainSec * 1_000).toISOString()
    io.out(values.json ? showJson({ now: chainSec }, 2) : `it is ${now} now\n`)
    return 0
  },
})

export const marketCreate = command({
  name: 'market create',
  takes: '',
  about: 'creates a market on the chain of an exchange, and waits until it can be traded',
  more:
    'On the local chain, account #3 is the maker of the market. On another chain, give the key of a maker and the address of\n' +
    'a node of the chain.',
  options: {
    question: {
      value: '<text>',
      help: 'the question that YES or NO answers, at most 1,024 bytes',
      required: true,
    },
    description: {
      value: '<text>',
      help: 'how the market is decided, at most 8,192 bytes',
      default: '',
    },
    category: { value: '<name>', help: CATEGORIES.join(', '), default: 'general' },
    matching: { value: '<rule>', help: MATCHINGS.join(', '), default: 'same-outcome' },
    seconds: {
      value: '<n>',
      help: 'seconds until the market expires',
      default: String(7 * DAY_SEC),
    },
    'key-file': { value: '<path>', help: "a file with the maker's key" },
    rpc: { value: '<url>', help: "RPC URL of the chain's node; not needed on the local chain" },
    'chain-id': { value: '<id>', help: 'the chain, if the exchange has several' },
    ...READ_OPTIONS,
  },
  async run({ values, io }) {
    const category = readWord('--category', values.category, CATEGORIES)
    const matching = readWord('--matching', values.matching, MATCHINGS)
    const seconds = readInteger('seconds', values.seconds, 61, 10 * YEAR_SEC)
    const client = readerOf(values, io)
    const { chain, rpcUrl } = await chainFor(client, values)
    const file = values['key-file']
    if (file === undefined && chain.chainId !== DEVNET_CHAIN_ID) {
      throw new CommandError(`--key-file is required: chain ${chain.chainId} is not a devnet`)
    }
    const { id, address, expiration } = await createMarket(client, {
      ...{ chain, seconds, matching, rpcUrl },
      key: file === undefined ? devnetKey(MAKER) : readKeyFile('--key-file', file),
      terms: [values.question, values.description, CATEGORIES.indexOf(category)],
    })
    const expires = new Date(expiration * 1_000).toISOString()
    io.out(
      values.json
        ? showJson({ id, contractAddress: address, expiration, matching }, 2)
        : showFacts({ market: id, contract: address, expires, matching }),
    )
    return 0
  },
})

export const maker = command({
  name: 'maker',
  takes: '',
  about: 'quotes YES and NO in all open markets until it is stopped, and then cancels its orders',
  more: `On the local chain, the maker is account #${DEMO_MAKER} by default, which has no other purpose.`,
  options: {
    levels: { value: '<n>', help: 'number of prices on each side', default: '3' },
    size: { value: '<shares>', help: 'number of shares at each price', default: '100' },
    spread: { value: '<cents>', help: 'difference between bid and ask', default: '4' },
    seconds: { value: '<n>', help: 'seconds between two rounds', default: '5' },
    rounds: {
      value: '<n>',
      help: 'number of rounds; 0 runs until the command is stopped',
      default: '0',
    },
    assets: {
      value: '<names>',
      help: 'assets whose quick markets also get quotes, separated by commas',
      default: 'BTC,ETH',
    },
    'key-file': SIGN_OPTIONS['key-file'],
    account: SIGN_OPTIONS.account,
    url: URL_OPTION,
  },
  async run({ values, io }) {
    const terms = {
      levels: readInteger('levels', values.levels, 1, 20),
      size: readInteger('size', values.size, 1, 1_000_000) * UNIT,
      spread: readInteger('spread', values.spread, 1, 50) * CENT,
      pauseSec: readInteger('seconds', values.seconds, 1, 3_600),
      rounds: readInteger('rounds', values.rounds, 0, 1_000_000),
      assets: values.assets.split(',').filter((name) => /^[A-Za-z0-9]{1,32}$/.test(name)),
    }
    const clients = await makerOf({ ...values, 'chain-id': undefined }, io)
    const say = (line: string) => io.out(`${line}\n`)
    await runMaker(clients, terms, { say, signal: io.signal })
    return 0
  },
})

/**
 * Returns the client of the market maker. If a demo account is the maker, also returns the client of a taker that
 * trades with it.
 */
async function makerOf(
  values: Parameters<typeof keyOf>[0],
  io: Parameters<typeof keyOf>[1],
): Promise<{ maker: Client; taker?: Client }> {
  const config = await readerOf(values, io).config()
  if (config.chains.length === 0)
    throw new CommandError('this exchange has no chain configured, so nothing can be signed')
  const onDevnet = config.chains.some(({ chainId }) => chainId === DEVNET_CHAIN_ID)
  // If the exchange has the local chain and the command line names no trader, a demo account quotes. The trader from
  // the environment does not quote then, because the quotes would match that trader's other orders.
  if (isTraderNamed(values) || !onDevnet) {
    return { maker: await tradingClient(values, io, config, keyOf(values, io, onDevnet)) }
  }
  return {
    maker: await tradingClient(values, io, config, devnetKey(DEMO_MAKER)),
    taker: await tradingClient(values, io, config, devnetKey(DEMO_TAKER)),
  }
}

/** Returns a client, with an API key if the exchange requires one. */
async function tradingClient(
  values: Parameters<typeof keyOf>[0],
  io: Parameters<typeof keyOf>[1],
  { auth, serverTime }: Config,
  signer: ReturnType<typeof keyOf>,
): Promise<Client> {
  const url = urlOf(values, io)
  const options = { url, signer, retries: 1 }
  if (!auth.bearer) return createClient(options)
  const kept = openKeyFolder(io).find(url, await signerAddress(signer))
  const key = kept ?? (await registerApiKey({ url }, signer, { name: 'demo maker' }))
  return createClient(withApiKey(options, key, { nowMs: clockOf(serverTime) }))
}
