/** The links of a market thread: fronts follow its events, other threads read its log, and all send commands. */

import type { MessagePort } from 'node:worker_threads'
import type { Settings } from '#config/settings-schema.ts'
import { channelOptions, isNode } from '#config/thread-data.ts'
import { accountsThreadName, isFrontThread, LOG_COPY_THREAD } from '#config/topology.ts'
import type { MovingProtocol } from '#live/patient-ref.ts'
import type { PlacedOrder } from '#protocol/market.ts'
import type {
  DozeProtocol,
  MarketFollowerProtocol,
  SessionsProtocol,
} from '#protocol/market-followers.ts'
import { MARKET_FORMS } from '#protocol/market-forms.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { LogReaderProtocol } from '#protocol/projector.ts'
import { Channel, type Unanswered } from '#runtime/channel.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import { MarketReaders } from '../host/market-readers.ts'
import type { Commands } from './commands.ts'
import type { FrontSessions, SessionOrders } from './session-orders.ts'

const MOVED: Unanswered = { unanswered: 'moved' }

/** Messages that this thread sends, besides answers. */
type SentProtocol = MarketFollowerProtocol & MovingProtocol & LogReaderProtocol

/**
 * Messages that this thread handles on arrival. All other messages are commands, which wait for a batch. `PlaceOrder`
 * and `PlaceOrders` are handled on arrival and then passed on as commands.
 */
type LinkProtocol = SessionsProtocol &
  DozeProtocol &
  Pick<MarketThreadProtocol, 'PlaceOrder' | 'PlaceOrders'>

type LinkHandlers = {
  readonly [K in keyof LinkProtocol]: (message: LinkProtocol[K]['takes'], replyTo: number) => void
}

type Handler = (message: never, replyTo: number) => void

export type Links = {
  /** The fronts that follow the events of this thread. */
  readonly readers: MarketReaders<Channel<SentProtocol>>
  connect(peer: string, port: MessagePort): void
  /** Notifies log readers (threads that read the log directly) of new records. */
  tellAppended(appended: LogReaderProtocol['Appended']['takes']): void
  /** Tells the fronts that this thread's markets move to another node; answers every later request with this notice. */
  move(): void
  close(): void
}

type LinkPorts = {
  readonly commands: Commands
  readonly sessions: SessionOrders
  /** Partitions that this thread serves. */
  readonly own: readonly number[]
  /** Called with the name of a peer when its link has opened or closed. */
  readonly linked: (peer: string) => void
  readonly gone: (peer: string) => void
  /**
   * True while this thread is stopping. It then closes its links, but the fronts still run, so their sessions must not
   * count as ended.
   */
  readonly isStopped: () => boolean
}

export function makeLinks(
  settings: Settings,
  kit: Pick<ThreadContext, 'links' | 'loop'>,
  ports: LinkPorts,
): Links {
  const { commands, sessions } = ports
  const channels = new Set<Channel<SentProtocol>>()
  const readers: Links['readers'] = new MarketReaders(ports.own, commands.partitionOf)
  /** Threads that read the log itself and are notified when the log grows. */
  const logReaders = new Set<Channel<LogReaderProtocol>>()
  const logReaderNames = logReadersOf(settings)
  const options = { ...channelOptions(settings), forms: MARKET_FORMS, loop: kit.loop }
  let moving = false

  function connect(peer: string, port: MessagePort): void {
    const front = sessions.link()
    const channel = new Channel<SentProtocol>(port, options, {
      received(type, message, replyTo) {
        if (moving) {
          channel.reply(replyTo, MOVED)
          return
        }
        const handle = handlers.get(type)
        if (handle === undefined) commands.hear(type, message, replyTo, channel)
        else handle(message as never, replyTo)
      },
      closed() {
        // If this thread is stopping, it closed the link itself, so the front's sessions stay alive. Otherwise the
        // front is lost, and its sessions end.
        front.unlink(!ports.isStopped())
        channels.delete(channel)
        ports.gone(peer)
        readers.delete(channel)
        logReaders.delete(channel)
      },
      dropped: () => kit.links.dropped(peer),
    })
    const handlers = new Map<string, Handler>(
      Object.entries(handlersOf(channel, front, readers.handlersOf(channel), commands)),
    )
    channels.add(channel)
    ports.linked(peer)
    if (logReaderNames.has(peer)) logReaders.add(channel)
    // Only fronts receive events. Log readers read the events from the log, and all other threads only send commands.
    else if (isFrontThread(peer)) readers.add(channel)
  }

  return {
    readers,
    connect,
    tellAppended(appended) {
      for (const logReader of logReaders) logReader.tell('Appended', appended)
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
  channel: Channel<SentProtocol>,
  front: FrontSessions,
  doze: ReturnType<Links['readers']['handlersOf']>,
  { hear }: Commands,
): LinkHandlers {
  const { ClaimSessions, EndSession, KeepSession } = front.handlers
  const replier = (replyTo: number) => (answer: unknown) => channel.reply(replyTo, answer)
  return {
    ClaimSessions: (message, replyTo) => ClaimSessions(message, replier(replyTo)),
    EndSession: (message, replyTo) => EndSession(message, replier(replyTo)),
    KeepSession: (message, replyTo) => KeepSession(message, replier(replyTo)),
    Doze: (message, replyTo) => channel.reply(replyTo, doze.Doze(message)),
    Wake: (message, replyTo) => channel.reply(replyTo, doze.Wake(message)),
    PlaceOrder(message, replyTo) {
      const { session, order } = message
      limitReserved(message, channel)
      if (session !== undefined) front.placed(session, order.orderHash)
      hear('PlaceOrder', message, replyTo, channel)
    },
    PlaceOrders(message, replyTo) {
      for (const placed of message.orders) limitReserved(placed, channel)
      hear('PlaceOrders', message, replyTo, channel)
    },
  }
}

/**
 * Sets the time until which the order's funds are reserved: `reservedMs` after the peer sent the message. So the time
 * that the message waits in a queue does not extend the reservation.
 */
function limitReserved(placed: PlacedOrder, { peerSentAtMs }: Channel<SentProtocol>): void {
  if (placed.reservedMs !== undefined) placed.reservedUntilMs = peerSentAtMs + placed.reservedMs
}

/** Returns the names of the threads that read the log itself. */
function logReadersOf(settings: Settings): ReadonlySet<string> {
  // In a cluster, each machine has a copy of the log. The thread that writes the copy notifies the copy's readers.
  if (isNode(settings)) return new Set([LOG_COPY_THREAD])
  const accounts = Array.from({ length: settings.risk.threads }, (_, at) => accountsThreadName(at))
  return new Set(['store', ...accounts])
}
