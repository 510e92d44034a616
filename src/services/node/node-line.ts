/**
 * A node's connection to NATS: sends messages to all nodes or to one, and receives messages. No other file uses the
 * NATS library. NATS keeps the order of one sender's messages on one subject, and does not guarantee delivery.
 */

import { readFileSync } from 'node:fs'
import {
  connect,
  credsAuthenticator,
  type NatsConnection,
  type NodeConnectionOptions,
} from '@nats-io/transport-node'
import { Fault } from '#domain/fault.ts'

/**
 * Interval of pings to the NATS server, and the number of unanswered pings after which the node uses another server.
 * The times are short, because other nodes soon count a silent node as dead.
 */
const PING_EVERY_MS = 2_000
const PINGS_MAX = 2
const RECONNECT_MS = 100
const CONNECT_MS_MAX = 5_000

export type NodeLine = {
  /** Maximum size of a message, in bytes. */
  readonly payloadMax: number
  readonly isConnected: boolean
  publish(subject: string, bytes: Uint8Array): void
  /** Calls `handle` with each message; `answer` is defined if the sender waits for an answer. */
  subscribe(subject: string, handle: (bytes: Uint8Array, answer?: Answer) => void): void
  /**
   * Resolves with the answer. Resolves with undefined if no answer arrives within `timeoutMs`, or immediately if the
   * subject has no subscriber.
   */
  request(subject: string, bytes: Uint8Array, timeoutMs: number): Promise<Uint8Array | undefined>
  /** Sends queued messages, and closes the connection. */
  close(): Promise<void>
}

type Answer = (bytes: Uint8Array) => void

type NodeLineOptions = {
  /** URL of the NATS servers: `nats://user:password@host:port,host:port`, or `tls://…` */
  readonly url: string
  /** Path of a file with NATS credentials; empty if there is none. */
  readonly credsFile: string
  readonly name: string
  /**
   * `lost` is called when the connection is lost or messages may be missing. `back` is called when the connection is
   * restored.
   */
  readonly lost: (why: string) => void
  readonly back: () => void
}

const SHAPE = /^(nats|tls):\/\/(?:([^:@/]+)(?::([^@/]*))?@)?([^/@]+)\/?$/

type NatsAddress = {
  readonly servers: string[]
  readonly tls: boolean
  readonly user: string
  readonly password: string
}

/**
 * Parses the URL of NATS servers; returns undefined if the URL is invalid. A user without a password is used as a NATS
 * token.
 */
export function parseNatsUrl(url: string): NatsAddress | undefined {
  const [, scheme, user = '', password = '', hosts] = SHAPE.exec(url) ?? []
  if (hosts === undefined) return undefined
  const servers = hosts.split(',')
  if (servers.some((server) => !/^([A-Za-z0-9_.-]+|\[[0-9a-fA-F:]+\])(:\d{1,5})?$/.test(server))) {
    return undefined
  }
  const [name, secret] = [user, password].map(decodeURIComponent) as [string, string]
  return { servers, tls: scheme === 'tls', user: name, password: secret }
}

export async function openNodeLine(options: NodeLineOptions): Promise<NodeLine> {
  const address = parseNatsUrl(options.url)
  if (address === undefined) {
    throw new Fault('NATS_URL_INVALID', 'SIBYL_NATS_URL: must have the form nats://host:port', {
      retryable: false,
    })
  }
  const { servers, tls, user, password } = address
  let connection: NatsConnection
  try {
    connection = await connect({
      ...{ servers, name: options.name, timeout: CONNECT_MS_MAX },
      ...{ pingInterval: PING_EVERY_MS, maxPingOut: PINGS_MAX },
      ...{
        maxReconnectAttempts: -1,
        reconnectTimeWait: RECONNECT_MS,
        reconnectJitter: RECONNECT_MS,
      },
      ignoreAuthErrorAbort: true,
      ...(tls ? { tls: {} } : {}),
      ...credentialsOf(user, password, options.credsFile),
    })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new Fault('NATS_AWAY', `SIBYL_NATS_URL: ${servers.join(',')} cannot be reached: ${why}`, {
      retryable: true,
      cause: error,
    })
  }
  let isConnected = true
  const gone = (why: string): void => {
    isConnected = false
    options.lost(why)
  }
  void (async () => {
    for await (const status of connection.status()) {
      if (status.type === 'disconnect') gone('the connection to NATS is lost')
      else if (status.type === 'slowConsumer')
        options.lost('this node did not read its messages from NATS in time')
      else if (status.type === 'reconnect') {
        isConnected = true
        options.back()
      }
    }
  })()
  return {
    payloadMax: connection.info?.max_payload ?? 1024 * 1024,
    get isConnected() {
      return isConnected && !connection.isClosed()
    },
    publish(subject, bytes) {
      if (isConnected && !connection.isClosed()) connection.publish(subject, bytes)
    },
    subscribe(subject, handle) {
      connection.subscribe(subject, {
        callback: (error, message) => {
          if (error !== null) return
          const { data, reply } = message
          if (reply === undefined || reply === '') handle(data)
          else {
            handle(data, (bytes) => {
              if (isConnected && !connection.isClosed()) message.respond(bytes)
            })
          }
        },
      })
    },
    async request(subject, bytes, timeoutMs) {
      try {
        return (await connection.request(subject, bytes, { timeout: timeoutMs })).data
      } catch (error) {
        // The subject had no subscriber, no answer arrived within `timeoutMs`, or there is no connection; the
        // caller retries.
        if (error instanceof Error && !(error instanceof TypeError)) return undefined
        throw error
      }
    },
    async close() {
      isConnected = false
      await connection.drain().catch(() => undefined)
      await connection.close()
    },
  }
}

function credentialsOf(
  user: string,
  password: string,
  credsFile: string,
): Pick<NodeConnectionOptions, 'authenticator' | 'user' | 'pass' | 'token'> {
  if (credsFile !== '') return { authenticator: credsAuthenticator(readCreds(credsFile)) }
  if (user === '') return {}
  return password === '' ? { token: user } : { user, pass: password }
}

function readCreds(file: string): Uint8Array {
  try {
    return readFileSync(file)
  } catch (error) {
    throw new Fault('NATS_CREDS_MISSING', `SIBYL_NATS_CREDS: ${file} cannot be read`, {
      retryable: false,
      cause: error,
    })
  }
}
