// Uploads over HTTP: a dump in parts, which a client continues after its connection broke.
import { CreateUpload, RemovedResponse, type Upload, UploadResponse, UploadsResponse } from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { errors } from '../../errors/errors.ts';
import { requireAllProjects } from '../../keys/caller.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../request/caller.ts';
import { dumpContent, exceptDumps, isStream, takeDumps } from '../request/dump-body.ts';
import { readUpload } from '../request/upload-time.ts';

const UploadParams = Type.Object({ id: Type.String({ description: "The upload's id." }) });
type Params = { id: string };
const offsetForm = /^(?:0|[1-9]\d{0,14})$/;

/** In a scope of its own, as importRoutes. */
export function uploadRoutes(app: FastifyInstance, { imports: { uploads } }: Deps): void {
  takeDumps(app);
  const tags = ['projects'];
  const accountOf = (request: FastifyRequest) =>
    requireAllProjects(callerOf(request), 'upload dumps').accountId;
  const onRequest = async (request: FastifyRequest) => void accountOf(request);
  const wrap = (upload: Upload): UploadResponse => ({ ok: true, upload });

  app.post<{ Body: CreateUpload }>(
    '/uploads',
    {
      config: { action: 'projects.manage', audit: null, fails: ['conflict', 'server_full'] },
      onRequest,
      schema: {
        operationId: 'createUpload',
        tags,
        summary: 'Begin an upload',
        description:
          'Requires an account key. For a dump that is sent in parts. When all of it has arrived, POST /projects/import imports it.',
        body: CreateUpload,
        response: { 201: UploadResponse },
      },
    },
    async (request, reply) => {
      const upload = await uploads.create(accountOf(request), request.body);
      reply.status(201).header('location', `${app.prefix}/uploads/${upload.id}`);
      return wrap(upload);
    },
  );

  app.get(
    '/uploads',
    {
      config: { action: 'projects.manage' },
      onRequest,
      schema: {
        operationId: 'listUploads',
        tags,
        summary: 'List uploads',
        response: { 200: UploadsResponse },
      },
    },
    async (request): Promise<UploadsResponse> => ({
      ok: true,
      uploads: await uploads.list(accountOf(request)),
    }),
  );

  app.get<{ Params: Params }>(
    '/uploads/:id',
    {
      config: { action: 'projects.manage', fails: ['upload_not_found'] },
      onRequest,
      schema: {
        operationId: 'getUpload',
        tags,
        summary: 'Get an upload',
        description: 'Its offset says where to continue.',
        params: UploadParams,
        response: { 200: UploadResponse },
      },
    },
    async (request) => wrap(await uploads.get(accountOf(request), request.params.id)),
  );

  app.patch<{ Params: Params }>(
    '/uploads/:id',
    {
      config: {
        action: 'projects.manage',
        audit: null,
        fails: ['upload_not_found', 'conflict', 'server_full'],
      },
      onRequest,
      validatorCompiler: exceptDumps(app),
      schema: {
        operationId: 'continueUpload',
        tags,
        summary: 'Continue an upload',
        description:
          'Appends the body. The header Upload-Offset says how many bytes come before it; another number than the offset of the upload gets 409 with the right one in details.offset. The service keeps the bytes that arrived, even if the connection breaks.',
        params: UploadParams,
        body: { content: dumpContent },
        response: { 200: UploadResponse },
      },
    },
    async (request, reply) => {
      const { body, params, headers } = request;
      const offset = headers['upload-offset'];
      if (typeof offset !== 'string' || !offsetForm.test(offset))
        throw errors.invalidRequest([{ path: 'Upload-Offset', problem: 'must be a number of bytes' }]);
      if (!isStream(body)) throw errors.unsupportedMediaType(headers['content-type']);
      return readUpload(request, reply, async () =>
        wrap(await uploads.append(accountOf(request), params.id, Number(offset), body)),
      );
    },
  );

  app.delete<{ Params: Params }>(
    '/uploads/:id',
    {
      config: { action: 'projects.manage', audit: null, fails: ['upload_not_found', 'conflict'] },
      onRequest,
      schema: {
        operationId: 'deleteUpload',
        tags,
        summary: 'Delete an upload',
        params: UploadParams,
        response: { 200: RemovedResponse },
      },
    },
    async (request) => {
      await uploads.remove(accountOf(request), request.params.id);
      return { ok: true };
    },
  );
}
