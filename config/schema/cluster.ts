/** Settings of a cluster node. */

import Type from 'typebox'
import { ClusterKey, NatsUrl, NodeName, NodeNameOrNone } from './patterns.ts'

export const ROLES = ['front', 'market', 'store', 'chain', 'prices'] as const

export const cluster = Type.Object({
  roles: Type.Array(Type.Enum(['all', ...ROLES]), {
    env: 'SIBYL_ROLES',
    minItems: 1,
    maxItems: 5,
    description:
      'The roles of this process, separated by commas: front (sockets), market (books and the log), store ' +
      '(writes the database), chain (indexer, relayer, resolution, settlement), prices. all is one ' +
      'machine that needs no other.',
  }),
  node: Type.String({
    env: 'SIBYL_NODE',
    pattern: NodeNameOrNone,
    description: 'The name of this node in its cluster; used only with roles.',
  }),
  name: Type.String({
    env: 'SIBYL_CLUSTER',
    pattern: NodeName,
    description: 'The name of the cluster: the prefix of its subjects in NATS.',
  }),
  natsUrl: Type.String({
    env: 'SIBYL_NATS_URL',
    secret: true,
    pattern: NatsUrl,
    description:
      'The NATS servers that connect the nodes: nats://user:password@host:port,host:port, or tls://… for ' +
      'TLS. Needed with roles.',
  }),
  natsCreds: Type.String({
    env: 'SIBYL_NATS_CREDS',
    description:
      'A file with credentials of NATS (a JWT and its key), instead of those in the URL.',
  }),
  key: Type.String({
    env: 'SIBYL_CLUSTER_KEY',
    secret: true,
    pattern: ClusterKey,
    description:
      'The key that nodes sign their messages with, 0x and 64 hexadecimal digits or a file that holds them; the same at ' +
      'all nodes. Required with roles in production; without it messages are not signed.',
  }),
  silenceMs: Type.Integer({
    env: 'SIBYL_CLUSTER_SILENCE_MS',
    minimum: 1_000,
    maximum: 60_000,
    unit: 'ms',
    description:
      'A node that sends nothing for this long counts as dead, and other nodes take its slots. ' +
      'Raise it if machines may pause for longer; all nodes need the same value.',
  }),
  rebalanceMs: Type.Integer({
    env: 'SIBYL_CLUSTER_REBALANCE_MS',
    minimum: 0,
    maximum: 86_400_000,
    unit: 'ms',
    description:
      'After a market node has been ready for this long, its share of the market threads moves to ' +
      'it, one after the other, without a refused order; 0: they stay where they are.',
  }),
  dozeMs: Type.Integer({
    env: 'SIBYL_CLUSTER_DOZE_MS',
    minimum: 0,
    maximum: 86_400_000,
    unit: 'ms',
    description:
      'In a cluster, a front stops following a partition that no client has watched, read or ' +
      'traded in for this long; 0: it always follows all of them.',
  }),
})
