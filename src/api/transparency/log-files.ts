/**
 * The public log in the layout of C2SP tlog-tiles: `/log/{logId}/{partition}/checkpoint`, `…/tile/{level}/{index}` and
 * `…/tile/entries/{index}`; and `GET /api/v1/transparency`, which lists the logs with their keys.
 */

import Type from 'typebox'
import { reject } from '#domain/rejection.ts'
import { type AnswerRoute, type RawReply, route } from '#http/route.ts'
import { TransparencyAnswer } from '#protocol/shapes/transparency.ts'
import { encodeBundle } from '#transparency/entry-bundle.ts'
import { parseTilePath, TILE_WIDTH, tileWidth } from '#transparency/tiles.ts'
import { HASH_BYTES } from '#transparency/tree-hash.ts'
import {
  newestCheckpoint,
  type PublicLogSource,
  type PublishedTree,
  treeOf,
} from './public-log-source.ts'

const LOG_ID = '8f14e45f-ceea-467f-a1d5-91b2c1f0d3a7'
const NEVER_CHANGES = 'public, max-age=31536000, immutable'
const BYTES = 'application/octet-stream'
const TEXT = 'text/plain; charset=utf-8'
/**
 * Maximum number of path segments of a tile's index. For example, the index `x001/x234/067.p/17` has four segments. No
 * log will need more.
 */
const INDEX_SEGMENTS_MAX = 4
/**
 * Cost of a bundle of entries in reads. A bundle has up to 256 entries, each with up to 60 kB. Its bytes are charged
 * separately.
 */
const BUNDLE_WEIGHT = 5

const logId = Type.String({
  pattern: '^[0-9A-Za-z-]{1,64}$',
  description: 'Id of the event log, as in `path` of `GET /api/v1/transparency`',
  examples: [LOG_ID],
})
const partition = Type.String({
  pattern: '^p(0|[1-9][0-9]{0,4})$',
  description: 'Letter `p` and the number of the partition, such as `p0`',
})

export function logFiles(source: PublicLogSource): AnswerRoute[] {
  return [listLogs(source), ...checkpoints(source), ...tiles(source)]
}

function listLogs(source: PublicLogSource): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/transparency',
    operationId: 'listLogs',
    auth: 'public',
    cost: 'read',
    weight: 2,
    tag: 'transparency',
    summary: 'List the public logs of this exchange and their keys',
    description:
      'Each partition of the event log is one transparency log (C2SP tlog-tiles) at `path`. The list leaves out ' +
      'partitions without events. It is empty if the exchange does not publish its log.',
    responses: { 200: TransparencyAnswer },
    examples: {
      responses: {
        200: {
          'one log': {
            value: {
              logs: [
                {
                  partition: 0,
                  origin: `localhost/log/${LOG_ID}/p0`,
                  path: `/log/${LOG_ID}/p0`,
                  verifierKeys: [
                    `localhost/log/${LOG_ID}/p0+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k`,
                  ],
                  size: 1_204,
                },
              ],
            },
          },
        },
      },
    },
    async handle() {
      const trees = (await source.trees()).filter(({ checkpoint }) => checkpoint !== '')
      const logs = trees.map((tree) => ({
        partition: tree.partition,
        origin: tree.checkpoint.slice(0, tree.checkpoint.indexOf('\n')),
        path: `/log/${tree.logId}/p${tree.partition}`,
        verifierKeys: [...source.keys(tree)],
        size: tree.publishedSize,
        ...(source.witnesses.length === 0
          ? {}
          : { witnesses: [...source.witnesses], cosignedSize: tree.cosigned?.size ?? 0 }),
      }))
      return { status: 200, body: { logs } }
    },
  })
}

/** Returns the routes of a log's two checkpoints: the newest one, and the newest that a witness has cosigned. */
function checkpoints(source: PublicLogSource): AnswerRoute[] {
  const checkpointRoute = (
    about: Pick<AnswerRoute, 'operationId' | 'path' | 'summary' | 'description'>,
    checkpointOf: (tree: PublishedTree) => string | undefined,
  ) =>
    route({
      ...about,
      method: 'GET',
      auth: 'public',
      cost: 'read',
      tag: 'transparency',
      cacheControl: 'no-cache',
      revalidates: true,
      produces: TEXT,
      params: Type.Object({ logId, partition }, { additionalProperties: false }),
      responses: { 200: Type.String() },
      errors: ['NOT_FOUND'],
      async handle({ path }) {
        const tree = await treeAt(source, path)
        const raw = tree && checkpointOf(tree)
        return raw === undefined ? reject('NOT_FOUND') : { status: 200, raw, contentType: TEXT }
      },
    })
  return [
    checkpointRoute(
      {
        path: '/log/{logId}/{partition}/checkpoint',
        operationId: 'getCheckpoint',
        summary: 'Get the newest signed checkpoint of a log',
        description:
          'The answer is a signed note (C2SP tlog-checkpoint) with the origin, the number of entries and the root ' +
          'hash. It includes the cosignatures of witnesses that have signed this checkpoint.',
      },
      newestCheckpoint,
    ),
    checkpointRoute(
      {
        path: '/log/{logId}/{partition}/cosigned-checkpoint',
        operationId: 'getCosignedCheckpoint',
        summary: 'Get the newest checkpoint of a log that a witness has cosigned',
        description:
          'The answer has the form of `checkpoint`. It contains the signature of at least one ' +
          'witness (C2SP tlog-cosignature). This checkpoint is a few seconds older than the ' +
          'newest one. If the exchange has no witnesses, or if no witness has cosigned a ' +
          'checkpoint yet, the answer is `NOT_FOUND`.',
      },
      ({ cosigned }) => cosigned?.checkpoint,
    ),
  ]
}

/** Returns the routes of tiles, one for each number of segments that an index may have. */
function tiles(source: PublicLogSource): AnswerRoute[] {
  return Array.from({ length: INDEX_SEGMENTS_MAX }, (_, more) => {
    const names = ['index', 'index2', 'index3', 'index4'].slice(0, more + 1)
    const segment = Type.String({ pattern: '^[0-9a-z.]{1,7}$' })
    return route({
      method: 'GET',
      path: `/log/{logId}/{partition}/tile/{level}/${names.map((name) => `{${name}}`).join('/')}`,
      ...(more === 0 ? { operationId: 'getTile' } : { hidden: true }),
      auth: 'public',
      cost: 'read',
      weight: BUNDLE_WEIGHT,
      tag: 'transparency',
      summary: 'Get a tile of hashes, or a bundle of entries, of a log',
      description:
        'The path has the form of C2SP tlog-tiles. `level` is 0 to 63 for a tile of hashes, or ' +
        '`entries` for a bundle of entries. `index` is written in groups of three digits, with ' +
        'an `x` before each group except the last: `x001/234` is 1234. `.p/17` after `index` ' +
        'requests a partial tile with the first 17 entries. A tile never changes.',
      cacheControl: NEVER_CHANGES,
      produces: BYTES,
      params: Type.Object(
        {
          ...{ logId, partition },
          level: Type.String({ pattern: '^(entries|[0-9]{1,2})$' }),
          ...Object.fromEntries(names.map((name) => [name, segment])),
        },
        { additionalProperties: false },
      ),
      responses: { 200: Type.String({ description: 'The answer is the bytes of the tile.' }) },
      errors: ['NOT_FOUND'],
      async handle({ path }) {
        const parts = path as Readonly<Record<string, string>>
        const index = names.map((name) => parts[name]).join('/')
        const tree = await treeAt(source, path)
        const reply = tree && (await tileReply(source, tree, `tile/${path.level}/${index}`))
        return reply ?? reject('NOT_FOUND')
      },
    })
  })
}

async function treeAt(
  source: PublicLogSource,
  path: { readonly logId: string; readonly partition: string },
): Promise<PublishedTree | undefined> {
  const tree = await treeOf(source, Number(path.partition.slice(1)))
  return tree?.logId === path.logId ? tree : undefined
}

async function tileReply(
  source: PublicLogSource,
  tree: PublishedTree,
  path: string,
): Promise<RawReply | undefined> {
  const place = parseTilePath(path)
  if (place === undefined || place.width > tileWidth(tree.publishedSize, place)) return undefined
  const { level, index, width } = place
  if (level !== 'entries') {
    const tile = await source.tile(tree.partition, level, index)
    const raw = tile?.subarray(0, width * HASH_BYTES)
    return raw === undefined ? undefined : { status: 200, raw, contentType: BYTES }
  }
  const entries = await source.entries(tree.partition, index * TILE_WIDTH, width)
  if (entries.length !== width) return undefined
  return { status: 200, raw: encodeBundle(entries), contentType: BYTES }
}
