-- The log that llm 0.27 began and llm 0.36 upgraded and continued, with a local server; without its search indexes.
BEGIN TRANSACTION;
CREATE TABLE "attachments" (
   "id" TEXT PRIMARY KEY,
   "type" TEXT,
   "path" TEXT,
   "url" TEXT,
   "content" BLOB
);
INSERT INTO "attachments" VALUES('7343d363d427f598455ae5f102d2f7e8c95efa14a6f454b8acc352c9458cac11','image/png',NULL,NULL,X'89504E470D0A1A0A30303030');
INSERT INTO "attachments" VALUES('f675e82fdd227e6dc1239d6bc12b823fa64a6b3420928393c23c7f2c80bd9446','image/png','/tmp/photos/lost.png',NULL,NULL);
INSERT INTO "attachments" VALUES('7fb3bcdb446f216b8c601078c35803c0d9c1d565d8460b629b10bee5977836ee','image/png',NULL,'https://example.org/heron.png',NULL);
CREATE TABLE "conversations" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "model" TEXT
);
INSERT INTO "conversations" VALUES('01m8ew6n1773zy2pqvmnvdagnj','What is a pelican?','local-bird');
INSERT INTO "conversations" VALUES('01m8ew6qzegk0a5sknc66xagdb','Describe it','local-bird');
INSERT INTO "conversations" VALUES('01m8ew6rwknqwwke94xrvave68','Use the tools','local-bird');
INSERT INTO "conversations" VALUES('01m8ew6tcd2w2h48s8yh1scsyq','Herons are birds. Summarize','local-bird');
INSERT INTO "conversations" VALUES('01m8ew6vsppyjs1e4pxdktermq','Continue me','local-bird');
CREATE TABLE "fragment_aliases" (
   "alias" TEXT PRIMARY KEY,
   "fragment_id" INTEGER REFERENCES "fragments"("id")
);
CREATE TABLE "fragments" (
   "id" INTEGER PRIMARY KEY,
   "hash" TEXT,
   "content" TEXT,
   "datetime_utc" TEXT,
   "source" TEXT
);
INSERT INTO "fragments" VALUES(1,'5683c9d7b041957ec07e11316793d3a66dc04284f164f697381f175c6ea7cd3d','Herons are birds.
','2026-11-27 16:07:55','/tmp/photos/birds.txt');
CREATE TABLE "messages" (
   "hash" TEXT PRIMARY KEY,
   "parent_hash" TEXT REFERENCES "messages"("hash"),
   "role" TEXT,
   "provider_metadata" TEXT
);
INSERT INTO "messages" VALUES('b2:1a876c29057ddc39f82c5eaea11844a8',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:2da5d04c20b7772f780f43ee880942c0','b2:1a876c29057ddc39f82c5eaea11844a8','assistant',NULL);
INSERT INTO "messages" VALUES('b2:52e655f534c70c55d72e798d62acd727','b2:2da5d04c20b7772f780f43ee880942c0','user',NULL);
INSERT INTO "messages" VALUES('b2:ed6a4bbbfcd5cb10a4961665df02b109','b2:52e655f534c70c55d72e798d62acd727','assistant',NULL);
INSERT INTO "messages" VALUES('b2:81b3059c3c71c63747876afeca15d759',NULL,'system',NULL);
INSERT INTO "messages" VALUES('b2:9bec717f41638116dcb0be8af7c7ea5e','b2:81b3059c3c71c63747876afeca15d759','user',NULL);
INSERT INTO "messages" VALUES('b2:ba5c65969c87ceac000ff4c01aca8190','b2:9bec717f41638116dcb0be8af7c7ea5e','assistant',NULL);
INSERT INTO "messages" VALUES('b2:978651bdc50c3a5ea60f536d777185ce','b2:ba5c65969c87ceac000ff4c01aca8190','user',NULL);
INSERT INTO "messages" VALUES('b2:e16883f39d9c01536490470b76d4547c','b2:978651bdc50c3a5ea60f536d777185ce','assistant',NULL);
INSERT INTO "messages" VALUES('b2:6cad2279ae0101cc389da1ad682c13ea',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:60460dd550900081b461ec2a7ab27c98','b2:6cad2279ae0101cc389da1ad682c13ea','assistant',NULL);
INSERT INTO "messages" VALUES('b2:0d3a05452c985072739666ac546acf46',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:3ed7bd8e78d287b6b92133bc6dca7af1','b2:0d3a05452c985072739666ac546acf46','assistant',NULL);
INSERT INTO "messages" VALUES('b2:243f8cef82a2e781178740f0fbc983f2',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:5d92d5424787946af34ba1a6f71e0ef9','b2:243f8cef82a2e781178740f0fbc983f2','assistant',NULL);
INSERT INTO "messages" VALUES('b2:2ab2c119af24d761df99092b1ef61d7b',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:68d5af0479158ccfe408417728f7f34a','b2:2ab2c119af24d761df99092b1ef61d7b','assistant',NULL);
INSERT INTO "messages" VALUES('b2:cc6c5d394328b9e5b4e359559928ed35','b2:68d5af0479158ccfe408417728f7f34a','tool',NULL);
INSERT INTO "messages" VALUES('b2:6637782195f00d85d71762218d7515e5','b2:cc6c5d394328b9e5b4e359559928ed35','assistant',NULL);
INSERT INTO "messages" VALUES('b2:54125ed0f5916b0cf3164f10047b943c','b2:6637782195f00d85d71762218d7515e5','user',NULL);
INSERT INTO "messages" VALUES('b2:9ac78f1589f0506d6892ca17151544c8','b2:54125ed0f5916b0cf3164f10047b943c','assistant',NULL);
INSERT INTO "messages" VALUES('b2:37eadf1c25e53cbf8120f207a64b3b05','b2:9ac78f1589f0506d6892ca17151544c8','tool',NULL);
INSERT INTO "messages" VALUES('b2:7584233c66fa9af4cce10b41d6de8258','b2:37eadf1c25e53cbf8120f207a64b3b05','assistant',NULL);
INSERT INTO "messages" VALUES('b2:17fbd752c635861983dd81aa937f709e',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:8af0da0e3475c383bfc7f8ec31ead532','b2:17fbd752c635861983dd81aa937f709e','assistant',NULL);
INSERT INTO "messages" VALUES('b2:2c264ec1489d2558f25c97b17c68ba0f','b2:8af0da0e3475c383bfc7f8ec31ead532','tool',NULL);
INSERT INTO "messages" VALUES('b2:9019978ea8b51cd1a1f7dc70d980fa75','b2:2c264ec1489d2558f25c97b17c68ba0f','assistant',NULL);
INSERT INTO "messages" VALUES('b2:f3c044a048933f473868b715b39f1e84',NULL,'system',NULL);
INSERT INTO "messages" VALUES('b2:19bac6097e9b712e99ac6035315513f1','b2:f3c044a048933f473868b715b39f1e84','user',NULL);
INSERT INTO "messages" VALUES('b2:916034cee4dddbc99d7697259e2a81be','b2:19bac6097e9b712e99ac6035315513f1','assistant',NULL);
INSERT INTO "messages" VALUES('b2:12250e6d5bfd8a4c6e82609c39ce112d',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:f465db4707c495f0c23c79a9d82b3db3','b2:12250e6d5bfd8a4c6e82609c39ce112d','assistant',NULL);
CREATE TABLE "part_attachments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "attachment_id", "order")
);
INSERT INTO "part_attachments" VALUES(11,'7343d363d427f598455ae5f102d2f7e8c95efa14a6f454b8acc352c9458cac11',0);
INSERT INTO "part_attachments" VALUES(14,'f675e82fdd227e6dc1239d6bc12b823fa64a6b3420928393c23c7f2c80bd9446',0);
INSERT INTO "part_attachments" VALUES(17,'7fb3bcdb446f216b8c601078c35803c0d9c1d565d8460b629b10bee5977836ee',0);
CREATE TABLE "part_fragments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "fragment_id", "order")
);
INSERT INTO "part_fragments" VALUES(34,1,0);
CREATE TABLE "parts" (
   "id" INTEGER PRIMARY KEY,
   "message_hash" TEXT REFERENCES "messages"("hash"),
   "position" INTEGER,
   "type" TEXT,
   "tool_name" TEXT,
   "text" TEXT,
   "payload" TEXT
);
INSERT INTO "parts" VALUES(1,'b2:1a876c29057ddc39f82c5eaea11844a8',0,'text',NULL,'Continue me',NULL);
INSERT INTO "parts" VALUES(2,'b2:2da5d04c20b7772f780f43ee880942c0',0,'text',NULL,'Answer 1: Continue me',NULL);
INSERT INTO "parts" VALUES(3,'b2:52e655f534c70c55d72e798d62acd727',0,'text',NULL,'After the upgrade',NULL);
INSERT INTO "parts" VALUES(4,'b2:ed6a4bbbfcd5cb10a4961665df02b109',0,'text',NULL,'Answer 2: After the upgrade',NULL);
INSERT INTO "parts" VALUES(5,'b2:81b3059c3c71c63747876afeca15d759',0,'text',NULL,'Be terse',NULL);
INSERT INTO "parts" VALUES(6,'b2:9bec717f41638116dcb0be8af7c7ea5e',0,'text',NULL,'A new question',NULL);
INSERT INTO "parts" VALUES(7,'b2:ba5c65969c87ceac000ff4c01aca8190',0,'text',NULL,'Answer 1: A new question',NULL);
INSERT INTO "parts" VALUES(8,'b2:978651bdc50c3a5ea60f536d777185ce',0,'text',NULL,'and another',NULL);
INSERT INTO "parts" VALUES(9,'b2:e16883f39d9c01536490470b76d4547c',0,'text',NULL,'Answer 2: and another',NULL);
INSERT INTO "parts" VALUES(10,'b2:6cad2279ae0101cc389da1ad682c13ea',0,'text',NULL,'Describe again',NULL);
INSERT INTO "parts" VALUES(11,'b2:6cad2279ae0101cc389da1ad682c13ea',1,'attachment',NULL,NULL,'{"attachment": {"id": "7343d363d427f598455ae5f102d2f7e8c95efa14a6f454b8acc352c9458cac11"}}');
INSERT INTO "parts" VALUES(12,'b2:60460dd550900081b461ec2a7ab27c98',0,'text',NULL,'Answer 1: [{''type'': ''text'', ''text'': ''Des',NULL);
INSERT INTO "parts" VALUES(13,'b2:0d3a05452c985072739666ac546acf46',0,'text',NULL,'A lost photo',NULL);
INSERT INTO "parts" VALUES(14,'b2:0d3a05452c985072739666ac546acf46',1,'attachment',NULL,NULL,'{"attachment": {"id": "f675e82fdd227e6dc1239d6bc12b823fa64a6b3420928393c23c7f2c80bd9446"}}');
INSERT INTO "parts" VALUES(15,'b2:3ed7bd8e78d287b6b92133bc6dca7af1',0,'text',NULL,'Answer 1: [{''type'': ''text'', ''text'': ''A l',NULL);
INSERT INTO "parts" VALUES(16,'b2:243f8cef82a2e781178740f0fbc983f2',0,'text',NULL,'A photo on the web',NULL);
INSERT INTO "parts" VALUES(17,'b2:243f8cef82a2e781178740f0fbc983f2',1,'attachment',NULL,NULL,'{"attachment": {"id": "7fb3bcdb446f216b8c601078c35803c0d9c1d565d8460b629b10bee5977836ee"}}');
INSERT INTO "parts" VALUES(18,'b2:5d92d5424787946af34ba1a6f71e0ef9',0,'text',NULL,'Answer 1: [{''type'': ''text'', ''text'': ''A p',NULL);
INSERT INTO "parts" VALUES(19,'b2:2ab2c119af24d761df99092b1ef61d7b',0,'text',NULL,'Use new tools',NULL);
INSERT INTO "parts" VALUES(20,'b2:68d5af0479158ccfe408417728f7f34a',0,'tool_call','upper',NULL,'{"name": "upper", "arguments": {"text": "a"}, "tool_call_id": "call_1_0"}');
INSERT INTO "parts" VALUES(21,'b2:68d5af0479158ccfe408417728f7f34a',1,'tool_call','llm_version',NULL,'{"name": "llm_version", "arguments": {}, "tool_call_id": "call_1_1"}');
INSERT INTO "parts" VALUES(22,'b2:cc6c5d394328b9e5b4e359559928ed35',0,'tool_result','upper',NULL,'{"name": "upper", "output": "A", "tool_call_id": "call_1_0"}');
INSERT INTO "parts" VALUES(23,'b2:cc6c5d394328b9e5b4e359559928ed35',1,'tool_result','llm_version',NULL,'{"name": "llm_version", "output": "0.36", "tool_call_id": "call_1_1"}');
INSERT INTO "parts" VALUES(24,'b2:6637782195f00d85d71762218d7515e5',0,'text',NULL,'Answer 1: 0.36',NULL);
INSERT INTO "parts" VALUES(25,'b2:54125ed0f5916b0cf3164f10047b943c',0,'text',NULL,'Thanks',NULL);
INSERT INTO "parts" VALUES(26,'b2:9ac78f1589f0506d6892ca17151544c8',0,'tool_call','llm_version',NULL,'{"name": "llm_version", "arguments": {}, "tool_call_id": "call_6_0"}');
INSERT INTO "parts" VALUES(27,'b2:37eadf1c25e53cbf8120f207a64b3b05',0,'tool_result','llm_version',NULL,'{"name": "llm_version", "output": "0.36", "tool_call_id": "call_6_0"}');
INSERT INTO "parts" VALUES(28,'b2:7584233c66fa9af4cce10b41d6de8258',0,'text',NULL,'Answer 2: 0.36',NULL);
INSERT INTO "parts" VALUES(29,'b2:17fbd752c635861983dd81aa937f709e',0,'text',NULL,'Let it fail',NULL);
INSERT INTO "parts" VALUES(30,'b2:8af0da0e3475c383bfc7f8ec31ead532',0,'tool_call','fail',NULL,'{"name": "fail", "arguments": {}, "tool_call_id": "call_1_0"}');
INSERT INTO "parts" VALUES(31,'b2:2c264ec1489d2558f25c97b17c68ba0f',0,'tool_result','fail',NULL,'{"name": "fail", "output": "Error: bad", "tool_call_id": "call_1_0", "exception": "ValueError: bad"}');
INSERT INTO "parts" VALUES(32,'b2:9019978ea8b51cd1a1f7dc70d980fa75',0,'text',NULL,'Answer 1: Error: bad',NULL);
INSERT INTO "parts" VALUES(33,'b2:f3c044a048933f473868b715b39f1e84',0,'text',NULL,'Herons are birds.',NULL);
INSERT INTO "parts" VALUES(34,'b2:19bac6097e9b712e99ac6035315513f1',0,'text',NULL,NULL,'{"text_ref": [{"fragment": 1}, {"literal": "\nSummarize again"}]}');
INSERT INTO "parts" VALUES(35,'b2:916034cee4dddbc99d7697259e2a81be',0,'text',NULL,'Answer 1: Herons are birds.

Summarize a',NULL);
INSERT INTO "parts" VALUES(36,'b2:12250e6d5bfd8a4c6e82609c39ce112d',0,'text',NULL,'As JSON',NULL);
INSERT INTO "parts" VALUES(37,'b2:f465db4707c495f0c23c79a9d82b3db3',0,'text',NULL,'Answer 1: As JSON',NULL);
CREATE TABLE "prompt_attachments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "attachment_id")
);
INSERT INTO "prompt_attachments" VALUES('01m8ew6qgd57htwpwggjdzr379','7343d363d427f598455ae5f102d2f7e8c95efa14a6f454b8acc352c9458cac11',0);
CREATE TABLE "prompt_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
INSERT INTO "prompt_fragments" VALUES('01m8ew6t51zrcq2nrm18fxvt26',1,0);
CREATE TABLE "responses" (
   "id" TEXT PRIMARY KEY,
   "model" TEXT,
   "prompt" TEXT,
   "system" TEXT,
   "prompt_json" TEXT,
   "options_json" TEXT,
   "response" TEXT,
   "response_json" TEXT,
   "conversation_id" TEXT REFERENCES "conversations"("id"),
   "duration_ms" INTEGER,
   "datetime_utc" TEXT,
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id")
, "resolved_model" TEXT, "reasoning" TEXT);
INSERT INTO "responses" VALUES('01m8ew6mmcj32zwsw5j5d5rrfh','local-bird','What is a pelican?',NULL,'{"messages": [{"role": "user", "content": "What is a pelican?"}]}','{}','Answer 1: What is a pelican?','{"content": {"$": "r:01m8ew6mmcj32zwsw5j5d5rrfh"}, "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}','01m8ew6n1773zy2pqvmnvdagnj',410,'2026-11-27T16:07:49.644729+00:00',12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',NULL,NULL,NULL);
INSERT INTO "responses" VALUES('01m8ew6p6fgs1e2jdx45k1wdfv','local-bird','And a heron?',NULL,'{"messages": [{"role": "user", "content": "What is a pelican?"}, {"role": "assistant", "content": "Answer 1: What is a pelican?"}, {"role": "user", "content": "And a heron?"}]}','{}','Answer 2: And a heron?','{"content": {"$": "r:01m8ew6p6fgs1e2jdx45k1wdfv"}, "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}','01m8ew6n1773zy2pqvmnvdagnj',265,'2026-11-27T16:07:51.247567+00:00',12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',NULL,NULL,NULL);
INSERT INTO "responses" VALUES('01m8ew6qgd57htwpwggjdzr379','local-bird','Describe it','Be brief','{"messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": [{"type": "text", "text": "Describe it"}, {"type": "image_url", "image_url": {"url": "data:..."}}]}]}','{}','Answer 1: [{''type'': ''text'', ''text'': ''Des','{"content": {"$": "r:01m8ew6qgd57htwpwggjdzr379"}, "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}','01m8ew6qzegk0a5sknc66xagdb',480,'2026-11-27T16:07:52.589689+00:00',12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',NULL,NULL,NULL);
INSERT INTO "responses" VALUES('01m8ew6rwpb0wxvhbqtnm8hfzy','local-bird','Use the tools',NULL,'{"messages": [{"role": "user", "content": "Use the tools"}]}','{}','','{"content": "", "finish_reason": "tool_calls", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}','01m8ew6rwknqwwke94xrvave68',236,'2026-11-27T16:07:54.006044+00:00',12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',NULL,NULL,NULL);
INSERT INTO "responses" VALUES('01m8ew6s44h65n0qdpt8mwn45w','local-bird','',NULL,'{"messages": [{"role": "user", "content": "Use the tools"}, {"role": "assistant", "tool_calls": [{"type": "function", "id": "call_1_0", "function": {"name": "upper", "arguments": "{\"text\": \"a\"}"}}, {"type": "function", "id": "call_1_1", "function": {"name": "llm_version", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "call_1_0", "content": "A"}, {"role": "tool", "tool_call_id": "call_1_1", "content": "0.27"}]}','{}','Answer 1: 0.27','{"content": {"$": "r:01m8ew6s44h65n0qdpt8mwn45w"}, "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}','01m8ew6rwknqwwke94xrvave68',38,'2026-11-27T16:07:54.244108+00:00',12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',NULL,NULL,NULL);
INSERT INTO "responses" VALUES('01m8ew6t51zrcq2nrm18fxvt26','local-bird','Summarize',NULL,'{"messages": [{"role": "system", "content": "Herons are birds."}, {"role": "user", "content": {"$r": [{"$": "f1"}, "\nSummarize"]}}]}','{}','Answer 1: Herons are birds.

Summarize','{"content": {"$": "r:01m8ew6t51zrcq2nrm18fxvt26"}, "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}','01m8ew6tcd2w2h48s8yh1scsyq',235,'2026-11-27T16:07:55.297884+00:00',12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',NULL,NULL,NULL);
INSERT INTO "responses" VALUES('01m8ew6vh9a5gstr8nt938pcxy','local-bird','Continue me',NULL,'{"messages": [{"role": "user", "content": "Continue me"}]}','{}','Answer 1: Continue me','{"content": {"$": "r:01m8ew6vh9a5gstr8nt938pcxy"}, "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}','01m8ew6vsppyjs1e4pxdktermq',268,'2026-11-27T16:07:56.713225+00:00',12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',NULL,NULL,NULL);
CREATE TABLE "schemas" (
   "id" TEXT PRIMARY KEY,
   "content" TEXT
);
INSERT INTO "schemas" VALUES('848bffbc260a905ad40888a4518f40ef','{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"]}');
CREATE TABLE "system_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
INSERT INTO "system_fragments" VALUES('01m8ew6t51zrcq2nrm18fxvt26',1,0);
CREATE TABLE "threads" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "forked_from" TEXT REFERENCES "threads"("id"),
   "datetime_utc" TEXT
);
INSERT INTO "threads" VALUES('01m8ew6vsppyjs1e4pxdktermq','After the upgrade','b2:ed6a4bbbfcd5cb10a4961665df02b109',NULL,'2026-11-27 16:07:59.190396+00:00');
INSERT INTO "threads" VALUES('01m8ew6zhx9gkfrmpqvjk2qh0r','A new question','b2:e16883f39d9c01536490470b76d4547c',NULL,'2026-11-27 16:08:00.931405+00:00');
INSERT INTO "threads" VALUES('01m8ew721vmewvb316vxtsz6av','Describe again','b2:60460dd550900081b461ec2a7ab27c98',NULL,'2026-11-27 16:08:03.507088+00:00');
INSERT INTO "threads" VALUES('01m8ew733yx4q47bppj4723215','A lost photo','b2:3ed7bd8e78d287b6b92133bc6dca7af1',NULL,'2026-11-27 16:08:04.634512+00:00');
INSERT INTO "threads" VALUES('01m8ew74nmgk6z03anqp3ng8k7','A photo on the web','b2:5d92d5424787946af34ba1a6f71e0ef9',NULL,'2026-11-27 16:08:06.176908+00:00');
INSERT INTO "threads" VALUES('01m8ew765g2k85zee47z72vvnn','Use new tools','b2:7584233c66fa9af4cce10b41d6de8258',NULL,'2026-11-27 16:08:07.781030+00:00');
INSERT INTO "threads" VALUES('01m8ew79jsxe8jar1szzn1nbhw','Let it fail','b2:9019978ea8b51cd1a1f7dc70d980fa75',NULL,'2026-11-27 16:08:11.285530+00:00');
INSERT INTO "threads" VALUES('01m8ew7b6yc5py5bnsnzrbn2y5','Herons are birds. Summarize aga…','b2:916034cee4dddbc99d7697259e2a81be',NULL,'2026-11-27 16:08:12.916138+00:00');
INSERT INTO "threads" VALUES('01m8ew7cs1vpjmrkvpnke7f0wh','As JSON','b2:f465db4707c495f0c23c79a9d82b3db3',NULL,'2026-11-27 16:08:14.513220+00:00');
CREATE TABLE "tool_calls" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "arguments" TEXT,
   "tool_call_id" TEXT
);
INSERT INTO "tool_calls" VALUES(1,'01m8ew6rwpb0wxvhbqtnm8hfzy',1,'upper','{"text": "a"}','call_1_0');
INSERT INTO "tool_calls" VALUES(2,'01m8ew6rwpb0wxvhbqtnm8hfzy',2,'llm_version','{}','call_1_1');
CREATE TABLE "tool_instances" (
   "id" INTEGER PRIMARY KEY,
   "plugin" TEXT,
   "name" TEXT,
   "arguments" TEXT
);
CREATE TABLE "tool_instantiations" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id"),
   PRIMARY KEY ("turn_id", "tool_call_id")
);
CREATE TABLE "tool_responses" (
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "response_id" TEXT REFERENCES "responses"("id"),
   PRIMARY KEY ("tool_id", "response_id")
);
INSERT INTO "tool_responses" VALUES(1,'01m8ew6rwpb0wxvhbqtnm8hfzy');
INSERT INTO "tool_responses" VALUES(2,'01m8ew6rwpb0wxvhbqtnm8hfzy');
INSERT INTO "tool_responses" VALUES(1,'01m8ew6s44h65n0qdpt8mwn45w');
INSERT INTO "tool_responses" VALUES(2,'01m8ew6s44h65n0qdpt8mwn45w');
CREATE TABLE "tool_results" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "output" TEXT,
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id")
, "exception" TEXT);
INSERT INTO "tool_results" VALUES(1,'01m8ew6s44h65n0qdpt8mwn45w',1,'upper','A','call_1_0',NULL,NULL);
INSERT INTO "tool_results" VALUES(2,'01m8ew6s44h65n0qdpt8mwn45w',2,'llm_version','0.27','call_1_1',NULL,NULL);
CREATE TABLE "tool_results_attachments" (
   "tool_result_id" INTEGER REFERENCES "tool_results"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("tool_result_id", "attachment_id")
);
CREATE TABLE "tools" (
   "id" INTEGER PRIMARY KEY,
   "hash" TEXT,
   "name" TEXT,
   "description" TEXT,
   "input_schema" TEXT
, "plugin" TEXT);
INSERT INTO "tools" VALUES(1,'340ba1f43ed2c0d97e1792681b2a482b03b5ba2fc0837b447e4ae4526ea7440c','upper','upper','{"properties": {"text": {"type": "string"}}, "required": ["text"], "type": "object"}',NULL);
INSERT INTO "tools" VALUES(2,'0b74aaa30fdc791cd960bf5adbdd3dffe7f160a781b7546cdbe7fdebd1e78351','llm_version','Return the installed version of llm','{"properties": {}, "type": "object"}','llm.default_plugins.default_tools');
INSERT INTO "tools" VALUES(3,'b5c1064bb25d49790cd12d43b751a90989fc6d51e59779ca6a486ac79a9bc13b','fail','x','{"properties": {}, "type": "object"}',NULL);
CREATE TABLE "turn_fragments" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   "kind" TEXT,
   PRIMARY KEY ("turn_id", "fragment_id", "kind", "order")
);
INSERT INTO "turn_fragments" VALUES('01m8ew7b733qz34wds7gfex9vf',1,0,'prompt');
INSERT INTO "turn_fragments" VALUES('01m8ew7b733qz34wds7gfex9vf',1,0,'system');
CREATE TABLE "turn_tools" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "instance_id" INTEGER REFERENCES "tool_instances"("id"),
   PRIMARY KEY ("turn_id", "tool_id")
);
INSERT INTO "turn_tools" VALUES('01m8ew765j6bqg863zyfz72nes',1,NULL);
INSERT INTO "turn_tools" VALUES('01m8ew765j6bqg863zyfz72nes',2,NULL);
INSERT INTO "turn_tools" VALUES('01m8ew769szg8gkt0ezkekbre5',1,NULL);
INSERT INTO "turn_tools" VALUES('01m8ew769szg8gkt0ezkekbre5',2,NULL);
INSERT INTO "turn_tools" VALUES('01m8ew77x2qnyxjnjvfggnnkmc',2,NULL);
INSERT INTO "turn_tools" VALUES('01m8ew781tqz42m39ccm2qdqs8',2,NULL);
INSERT INTO "turn_tools" VALUES('01m8ew79k0t63qynfdsfy46bb2',3,NULL);
INSERT INTO "turn_tools" VALUES('01m8ew79q4kawkth0yneqjdfzw',3,NULL);
CREATE TABLE "turns" (
   "id" TEXT PRIMARY KEY,
   "thread_id" TEXT REFERENCES "threads"("id"),
   "parent_message_hash" TEXT REFERENCES "messages"("hash"),
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "model" TEXT,
   "resolved_model" TEXT,
   "options_json" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id"),
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "duration_ms" INTEGER,
   "datetime_utc" TEXT
, "response_json" TEXT);
INSERT INTO "turns" VALUES('01m8ew6xqga2d4a1e4j77ankpk','01m8ew6vsppyjs1e4pxdktermq','b2:52e655f534c70c55d72e798d62acd727','b2:ed6a4bbbfcd5cb10a4961665df02b109','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',229,'2026-11-27T16:07:58.960549+00:00','{"content": "Answer 2: After the upgrade", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew6zhyv5g00ck7wk7wvbh3','01m8ew6zhx9gkfrmpqvjk2qh0r','b2:9bec717f41638116dcb0be8af7c7ea5e','b2:ba5c65969c87ceac000ff4c01aca8190','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',99,'2026-11-27T16:08:00.830406+00:00','{"content": "Answer 1: A new question", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew70mtdnhxr21z0m1byrt6','01m8ew6zhx9gkfrmpqvjk2qh0r','b2:978651bdc50c3a5ea60f536d777185ce','b2:e16883f39d9c01536490470b76d4547c','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',118,'2026-11-27T16:08:01.947011+00:00','{"content": "Answer 2: and another", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew721xk4qvnzmgjbbr8055','01m8ew721vmewvb316vxtsz6av','b2:6cad2279ae0101cc389da1ad682c13ea','b2:60460dd550900081b461ec2a7ab27c98','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',115,'2026-11-27T16:08:03.389905+00:00','{"content": "Answer 1: [{''type'': ''text'', ''text'': ''Des", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew7340q3ekf513k4p6nv2g','01m8ew733yx4q47bppj4723215','b2:0d3a05452c985072739666ac546acf46','b2:3ed7bd8e78d287b6b92133bc6dca7af1','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',153,'2026-11-27T16:08:04.480754+00:00','{"content": "Answer 1: [{''type'': ''text'', ''text'': ''A l", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew74nnda06afrg1fvjje3y','01m8ew74nmgk6z03anqp3ng8k7','b2:243f8cef82a2e781178740f0fbc983f2','b2:5d92d5424787946af34ba1a6f71e0ef9','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',106,'2026-11-27T16:08:06.069800+00:00','{"content": "Answer 1: [{''type'': ''text'', ''text'': ''A p", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew765j6bqg863zyfz72nes','01m8ew765g2k85zee47z72vvnn','b2:2ab2c119af24d761df99092b1ef61d7b','b2:68d5af0479158ccfe408417728f7f34a','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',133,'2026-11-27T16:08:07.602476+00:00','{"content": "", "finish_reason": "tool_calls", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew769szg8gkt0ezkekbre5','01m8ew765g2k85zee47z72vvnn','b2:cc6c5d394328b9e5b4e359559928ed35','b2:6637782195f00d85d71762218d7515e5','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',43,'2026-11-27T16:08:07.737435+00:00','{"content": "Answer 1: 0.36", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew77x2qnyxjnjvfggnnkmc','01m8ew765g2k85zee47z72vvnn','b2:54125ed0f5916b0cf3164f10047b943c','b2:9ac78f1589f0506d6892ca17151544c8','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',150,'2026-11-27T16:08:09.378981+00:00','{"content": "", "finish_reason": "tool_calls", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew781tqz42m39ccm2qdqs8','01m8ew765g2k85zee47z72vvnn','b2:37eadf1c25e53cbf8120f207a64b3b05','b2:7584233c66fa9af4cce10b41d6de8258','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',45,'2026-11-27T16:08:09.530337+00:00','{"content": "Answer 2: 0.36", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew79k0t63qynfdsfy46bb2','01m8ew79jsxe8jar1szzn1nbhw','b2:17fbd752c635861983dd81aa937f709e','b2:8af0da0e3475c383bfc7f8ec31ead532','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',131,'2026-11-27T16:08:11.104660+00:00','{"content": "", "finish_reason": "tool_calls", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew79q4kawkth0yneqjdfzw','01m8ew79jsxe8jar1szzn1nbhw','b2:2c264ec1489d2558f25c97b17c68ba0f','b2:9019978ea8b51cd1a1f7dc70d980fa75','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',48,'2026-11-27T16:08:11.236146+00:00','{"content": "Answer 1: Error: bad", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew7b733qz34wds7gfex9vf','01m8ew7b6yc5py5bnsnzrbn2y5','b2:19bac6097e9b712e99ac6035315513f1','b2:916034cee4dddbc99d7697259e2a81be','local-bird',NULL,NULL,NULL,12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',144,'2026-11-27T16:08:12.771107+00:00','{"content": "Answer 1: Herons are birds.\n\nSummarize a", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}, "id": "c1", "object": "chat.completion.chunk", "model": "bird-1", "created": 1}');
INSERT INTO "turns" VALUES('01m8ew7cs6ee6dzxxfyq2cp4ry','01m8ew7cs1vpjmrkvpnke7f0wh','b2:12250e6d5bfd8a4c6e82609c39ce112d','b2:f465db4707c495f0c23c79a9d82b3db3','local-bird',NULL,NULL,'848bffbc260a905ad40888a4518f40ef',12,5,'{"prompt_tokens_details": {"cached_tokens": 4}}',137,'2026-11-27T16:08:14.375018+00:00','{"id": "c1", "choices": [{"finish_reason": "stop", "index": 0, "message": {"content": "Answer 1: As JSON", "role": "assistant"}}], "created": 1, "model": "bird-1", "object": "chat.completion", "usage": {"completion_tokens": 5, "prompt_tokens": 12, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 4}}}');
CREATE UNIQUE INDEX "idx_fragments_hash"
    ON "fragments" ("hash");
CREATE UNIQUE INDEX "idx_tools_hash"
    ON "tools" ("hash");
CREATE INDEX "idx_messages_parent_hash"
    ON "messages" ("parent_hash");
CREATE UNIQUE INDEX "idx_parts_message_hash_position"
    ON "parts" ("message_hash", "position");
CREATE INDEX "idx_part_fragments_fragment_id"
    ON "part_fragments" ("fragment_id");
CREATE INDEX "idx_turns_thread_id"
    ON "turns" ("thread_id");
CREATE INDEX "idx_turn_fragments_fragment_id"
    ON "turn_fragments" ("fragment_id");
COMMIT;
