/** The links of a market thread: fronts follow its events, others read its log, and all of them send commands. */

import type { MessagePort } from 'node:worker_threads'
import type { Settings } from '#config/settings-schema.ts'
import { channelOptions, isNode } from '#config/thread-data.ts'
import { accountsThreadName, isFrontThread, LOG_COPY_THREAD } from '#config/topology.ts'
import type { MovingProtocol } from '#live/patient-ref.ts'
import type {
  DozeProtocol,
  HoldsProtocol,
  MarketFollowerProtocol,
} from '#protocol/market-followers.ts'
import { MARKET_FORMS } from '#protocol/market-forms.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { LogReaderProtocol } from '#protocol/projector.ts'
import { Channel, type Unanswered } from '#runtime/channel.ts'
import type { Kit } from '#services/kit/kit.ts'
import { MarketReaders } from '../host/market-readers.ts'
import type { OrderHolds } from '../host/order-holds.ts'
import type { Commands } from './commands.ts'
import type { SessionOrders } from './session-orders.ts'

const MOVED: Unanswered = { unanswered: 'moved' }

/** Messages that this thread sends, besides answers. */
type ToldProtocol = MarketFollowerProtocol & MovingProtocol & LogReaderProtocol

/** The messages that this thread handles itself, at once; every other one is a command for its hosts. */
type LinkProtocol = HoldsProtocol & DozeProtocol & Pick<MarketThreadProtocol, 'PlaceOrder'>

type LinkHandlers = {
  readonly [K in keyof LinkProtocol]: (message: LinkProtocol[K]['takes'], replyTo: number) => void
}

type Handler = (message: never, replyTo: number) => void

export type Links = {
  /** The fronts, which follow events. */
  readonly readers: MarketReaders<Channel<ToldProtocol>>
  connect(peer: string, port: MessagePort): void
  /** Tells those that read the log by themselves how far it goes. */
  tellAppended(offsets: readonly (readonly [partition: number, offset: number])[]): void
  /** From now on everything is answered with that the markets have moved to another node. */
  move(): void
  close(): void
}

type LinkPorts = {
  readonly commands: Commands
  readonly sessions: SessionOrders
  /** Partitions of this thread. */
  readonly own: readonly number[]
  /** Called with the name of a peer that was linked, or whose link has closed. */
  readonly linked: (peer: string) => void
  readonly gone: (peer: string) => void
  /** Whether this thread ends, and its links with it. */
  readonly isStopped: () => boolean
}

export function makeLinks(settings: Settings, kit: Pick<Kit, 'links'>, ports: LinkPorts): Links {
  const { commands, sessions } = ports
  const channels = new Set<Channel<ToldProtocol>>()
  const readers: Links['readers'] = new MarketReaders(ports.own, commands.partitionOf)
  /** Those that read the log by themselves and are told when it grows. */
  const logReaders = new Set<Channel<LogReaderProtocol>>()
  const logReaderNames = logReadersOf(settings)
  const options = { ...channelOptions(settings), forms: MARKET_FORMS }
  let moving = false

  function connect(peer: string, port: MessagePort): void {
    const holds = sessions.link()
    const channel = new Channel<ToldProtocol>(port, options, {
      heard(type, message, replyTo) {
        if (moving) {
          channel.reply(replyTo, MOVED)
          return
        }
        const handle = handlers.get(type)
        if (handle === undefined) commands.hear(type, message, replyTo, channel)
        else handle(message as never, replyTo)
      },
      closed() {
        // The sessions of a front end with it. If this thread stops, the front still lives.
        sessions.unlink(holds, !ports.isStopped())
        channels.delete(channel)
        ports.gone(peer)
        readers.delete(channel)
        logReaders.delete(channel)
      },
      dropped: () => kit.links.dropped(peer),
    })
    const handlers = new Map<string, Handler>(
      Object.entries(handlersOf(channel, holds, readers.handlersOf(channel), commands)),
    )
    channels.add(channel)
    ports.linked(peer)
    if (logReaderNames.has(peer)) logReaders.add(channel)
    // Other threads send commands and follow nothing.
    else if (isFrontThread(peer)) readers.add(channel)
  }

  return {
    readers,
    connect,
    tellAppended(offsets) {
      for (const logReader of logReaders) logReader.tell('Appended', { offsets })
    },
    move() {
      moving = true
      for (const reader of readers) reader.tell('Moving', {})
    },
    close() {
      for (const channel of channels) channel.close()
    },
  }
}

function handlersOf(
  channel: Channel<ToldProtocol>,
  holds: OrderHolds,
  doze: ReturnType<Links['readers']['handlersOf']>,
  { hear }: Commands,
): LinkHandlers {
  const { HoldOrder, ReleaseOrder, DropSession, DropSessions } = holds.handlers
  return {
    HoldOrder: (message, replyTo) => channel.reply(replyTo, HoldOrder(message)),
    ReleaseOrder: (message, replyTo) => channel.reply(replyTo, ReleaseOrder(message)),
    DropSession: (message, replyTo) => channel.reply(replyTo, DropSession(message)),
    DropSessions: (message, replyTo) => channel.reply(replyTo, DropSessions(message)),
    Doze: (message, replyTo) => channel.reply(replyTo, doze.Doze(message)),
    Wake: (message, replyTo) => channel.reply(replyTo, doze.Wake(message)),
    PlaceOrder(message, replyTo) {
      // Registered before the order can rest, so that it is never without its session.
      const refused = holds.placed(message)
      if (refused === undefined) hear('PlaceOrder', message, replyTo, channel)
      else channel.reply(replyTo, refused)
    },
  }
}

/** The threads that read the log by themselves. */
function logReadersOf(settings: Settings): ReadonlySet<string> {
  // With several machines each has a copy of the log, whose thread notifies its readers.
  if (isNode(settings)) return new Set([LOG_COPY_THREAD])
  const accounts = Array.from({ length: settings.risk.threads }, (_, at) => accountsThreadName(at))
  return new Set(['store', ...accounts])
}
