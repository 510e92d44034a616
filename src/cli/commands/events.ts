/** `sibyl events`, `sibyl event show`, `sibyl event create` and `sibyl event add`. */

import { DEVNET_CHAIN_ID, devnetKey, MAKER, OPERATOR } from '#devnet/accounts.ts'
import { CommandError, OptionError, readInteger } from '#devnet/command.ts'
import { createMarket } from '#devnet/create-market.ts'
import { checkEventInfo, type EventInfo } from '#domain/event-info.ts'
import { CATEGORIES, MATCHINGS } from '#domain/market.ts'
import type { Event, EventDetail } from '#protocol/shapes/events.ts'
import { type CommandIo, command, READ_OPTIONS, readWord } from '../command.ts'
import { chainFor, readerOf, readKeyFile } from '../connect.ts'
import { showAmount, showFacts, showId, showJson, showPrice, showTable, showTime } from '../show.ts'

const LIMIT_MAX = 10_000
const YEAR_SEC = 31_536_000
const DAY_SEC = 86_400
const SORTS = ['volume', 'newest', 'ending', 'category'] as const

export const events = command({
  name: 'events',
  takes: '[<words>]',
  about: 'lists events; an event is a group of markets',
  more: 'With words, it lists only events with this text in title, description, slug or tags.',
  options: {
    all: { help: 'includes events that have ended' },
    sort: { value: '<order>', help: SORTS.join(', '), default: 'volume' },
    category: { value: '<name>', help: CATEGORIES.join(', ') },
    tag: { value: '<name>', help: 'only events with this tag' },
    limit: { value: '<n>', help: 'maximum number of events', default: '50' },
    ...READ_OPTIONS,
  },
  async run({ values, positionals: [search], io }) {
    const limit = readInteger('limit', values.limit, 1, LIMIT_MAX)
    const filter = {
      sort: readWord('--sort', values.sort, SORTS),
      ...(values.category === undefined
        ? {}
        : { category: readWord('--category', values.category, CATEGORIES) }),
      ...(values.tag === undefined ? {} : { tag: values.tag }),
      ...(search === undefined ? {} : { search }),
      ...(values.all ? { status: 'all' as const } : {}),
    }
    const found: Event[] = []
    for await (const event of readerOf(values, io).eachEvent(filter)) {
      found.push(event)
      if (found.length === limit) break
    }
    if (values.json) io.out(showJson(found, 2))
    else if (found.length === 0) io.out('no events found\n')
    else io.out(tableOf(found))
    return 0
  },
})

function tableOf(found: readonly Event[]): string {
  const head = ['EVENT', 'MARKETS', 'VOLUME', 'ENDS (UTC)', 'TITLE']
  const rows = found.map(({ slug, marketCount, totalVolume, end, title, image }) => [
    slug,
    String(marketCount),
    showAmount(totalVolume ?? 0),
    showTime(end),
    image === '' || image.startsWith('0x') ? title : `${image} ${title}`,
  ])
  return showTable(head, rows)
}

export const eventShow = command({
  name: 'event show',
  takes: '<slug>',
  about: 'shows an event with its markets',
  options: {
    'chain-id': {
      value: '<id>',
      help: 'id of the chain, if several chains have an event with this slug',
    },
    ...READ_OPTIONS,
  },
  async run({ values, positionals: [slug = ''], io }) {
    const event = await readerOf(values, io).event(slug, whereOf(values['chain-id']))
    io.out(values.json ? showJson(event, 2) : eventText(event))
    return 0
  },
})

function whereOf(chainId: string | undefined): { chainId?: number } {
  return chainId === undefined ? {} : { chainId: readInteger('chain-id', chainId, 1, 2 ** 32) }
}

function eventText(event: EventDetail): string {
  const { prices } = event
  const facts = showFacts({
    event: event.title,
    ...{ slug: event.slug, category: event.category, ends: showTime(event.end) },
    ...(event.tags.length === 0 ? {} : { tags: event.tags.join(', ') }),
    volume: showAmount(event.totalVolume ?? 0),
    ...(prices === null
      ? {}
      : { 'YES prices': showAmount(prices.yesSum), gap: showAmount(prices.gap) }),
  })
  const head = ['MARKET', 'YES BID', 'ASK', 'LAST', 'MATCHING', 'QUESTION']
  const rows = event.markets.map((market) => [
    showId(market.id),
    showPrice(market.bestBidPrices[0]),
    showPrice(market.bestAskPrices[0]),
    showPrice(market.lastPrices?.[0]),
    market.matching,
    market.question,
  ])
  return `${facts}\n${showTable(head, rows)}`
}

const CREATE_OPTIONS = {
  'market-description': { value: '<text>', help: 'how each market is decided', default: '' },
  matching: { value: '<rule>', help: MATCHINGS.join(', '), default: 'same-outcome' },
  'key-file': { value: '<path>', help: "a file with the maker's key" },
  'operator-key-file': { value: '<path>', help: "a file with the key of the factory's operator" },
  rpc: { value: '<url>', help: "RPC URL of the chain's node; not needed on the local chain" },
  'chain-id': { value: '<id>', help: 'the chain, if the exchange has several' },
  ...READ_OPTIONS,
} as const

export const eventCreate = command({
  name: 'event create',
  takes: '<question> …',
  about: 'creates an event with one market per question',
  more:
    "An operator of the factory signs the event for each market, and the market's creation stores the event\n" +
    'on the chain. The event cannot be changed afterwards, but sibyl event add can add markets to it. On the\n' +
    `local chain the keys are those of accounts #${OPERATOR} and #${MAKER}.`,
  options: {
    slug: {
      value: '<name>',
      help: 'name of the event in links: a-z, 0-9 and hyphens',
      required: true,
    },
    title: { value: '<text>', help: 'title of the event', required: true },
    description: { value: '<text>', help: 'description of the event', default: '' },
    category: { value: '<name>', help: CATEGORIES.join(', '), default: 'general' },
    tags: { value: '<names>', help: 'tags, separated by commas', default: '' },
    image: { value: '<emoji>', help: 'an emoji, or the SHA-256 of an image as 0x…', default: '' },
    exclusive: { help: 'at most one market of the event can resolve to YES' },
    seconds: { value: '<n>', help: 'seconds until the event ends', default: String(7 * DAY_SEC) },
    ...CREATE_OPTIONS,
  },
  async run({ values, positionals, io }) {
    const seconds = readInteger('seconds', values.seconds, 61, 10 * YEAR_SEC)
    const { serverTime } = await readerOf(values, io).config()
    const info = checkEventInfo({
      ...{ slug: values.slug, title: values.title, image: values.image },
      category: readWord('--category', values.category, CATEGORIES),
      tags: values.tags.split(',').filter((tag) => tag !== ''),
      description: values.description,
      end: serverTime + seconds,
      exclusive: values.exclusive,
    })
    if ('why' in info) throw new OptionError(`--${info.why}`)
    await createMarkets(info, seconds, { values, positionals, io })
    return 0
  },
})

export const eventAdd = command({
  name: 'event add',
  takes: '<slug> <question> …',
  about: 'adds one market per question to an event',
  options: CREATE_OPTIONS,
  async run({ values, positionals: [slug = '', ...questions], io }) {
    const client = readerOf(values, io)
    const [event, { serverTime }] = await Promise.all([
      client.event(slug, whereOf(values['chain-id'])),
      client.config(),
    ])
    const { title, category, tags, image, description, end, exclusive } = event
    const info = { slug, title, category, tags, image, description, end, exclusive }
    if (end - serverTime < 61) {
      throw new CommandError(
        `no market can be added: the event ${slug} has ended or ends within 60 seconds`,
      )
    }
    await createMarkets(info, end - serverTime, { values, positionals: questions, io })
    return 0
  },
})

type CreateValues = {
  readonly [Name in Exclude<
    keyof typeof CREATE_OPTIONS,
    'json' | 'market-description' | 'matching'
  >]: string | undefined
} & { readonly json: boolean; readonly 'market-description': string; readonly matching: string }

async function createMarkets(
  info: EventInfo,
  seconds: number,
  call: {
    readonly values: CreateValues
    readonly positionals: readonly string[]
    readonly io: CommandIo
  },
): Promise<void> {
  const { values, positionals, io } = call
  const matching = readWord('--matching', values.matching, MATCHINGS)
  const client = readerOf(values, io)
  const { chain, rpcUrl } = await chainFor(client, values)
  const onDevnet = chain.chainId === DEVNET_CHAIN_ID
  const keyOf = (name: 'key-file' | 'operator-key-file', account: number) => {
    const file = values[name]
    if (file !== undefined) return readKeyFile(`--${name}`, file)
    if (onDevnet) return devnetKey(account)
    throw new CommandError(`--${name} is required: chain ${chain.chainId} is not a devnet`)
  }
  const created: { id: string; question: string }[] = []
  for (const question of positionals) {
    const { id } = await createMarket(client, {
      ...{ chain, rpcUrl, seconds, matching, key: keyOf('key-file', MAKER) },
      terms: [question, values['market-description'], CATEGORIES.indexOf(info.category)],
      event: { info, operatorKey: keyOf('operator-key-file', OPERATOR) },
    })
    created.push({ id, question })
  }
  // Throws if a created market did not join the event. The slug may belong to another event of the chain, or
  // the event may have its maximum number of markets.
  for (const { id, question } of created) {
    const { event } = await client.market(id)
    if (event?.slug !== info.slug) {
      throw new CommandError(
        `the exchange lists the new market '${question}' without the event: another event has the slug ${info.slug}, or the event is full`,
      )
    }
  }
  if (values.json) io.out(showJson({ slug: info.slug, markets: created.map(({ id }) => id) }, 2))
  else io.out(eventText(await client.event(info.slug, { chainId: chain.chainId })))
}
